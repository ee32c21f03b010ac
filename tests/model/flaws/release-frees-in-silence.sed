# The last release frees a slot and reports that it did not.
# expect: freed
/^static bool tally_give_back/,/^}/ s/return true;/return false;/
