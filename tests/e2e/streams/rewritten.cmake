# Images that are rewritten in place.
penstock_e2e(rewritten rewritten.py)
