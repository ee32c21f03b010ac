# A batch that no reader wants is kept.
# expect: lost-slot
/^bool tally_filled/,/^}/ s/owed ? SLOT_READY : SLOT_FREE/SLOT_READY/
