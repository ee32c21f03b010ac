# A reader that has all that it wants is owed more.
# expect: owed
s/ \&\& serial < reader->end//
