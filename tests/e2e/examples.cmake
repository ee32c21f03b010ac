# The example programs, as a user would run them.
penstock_e2e(examples examples.py TIMEOUT 600)
