# Two batches have the same serial.
# expect: serial
s/= tally->next_serial++;/= tally->next_serial;/
