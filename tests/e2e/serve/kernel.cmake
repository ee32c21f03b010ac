# What each program says on a kernel that is too old.
penstock_e2e(kernel kernel.py)
