# A release counts as a breach of the protocol.
# expect: refused
/^bool tally_holds/,/^}/ s/return slot/return tally->slots > 64 \&\& slot/
