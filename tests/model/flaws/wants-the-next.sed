# No reader is owed the batch that it is leased next.
# expect: gone
s/serial >= reader->next \&\&/serial > reader->next \&\&/
