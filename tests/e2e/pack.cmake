# penstock pack: what lies in the tars, what happens when it is ended, and what it refuses. Pixels are compared by Pillow where it is there.
penstock_e2e(pack pack.py)
