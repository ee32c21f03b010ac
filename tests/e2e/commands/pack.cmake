# penstock pack: the contents of the tar files, what happens when it is ended, and what it refuses.
# Pillow compares the pixels if it is installed.
penstock_e2e(pack pack.py)
