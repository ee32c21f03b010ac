penstock_e2e(completion completion.py TIMEOUT 120)
