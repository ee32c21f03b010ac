# A reader is leased the same batch again.
# expect: sequence
s/reader->next++;//
