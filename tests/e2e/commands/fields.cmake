# check, pack, replay and show with --fields.
penstock_e2e(fields fields.py)
