# The page in a headless Chromium, which is not a dependency: skipped if it is not installed
# (CONTRIBUTING.md).
penstock_e2e(page.made_up page.py !test_real_*)
penstock_e2e(page.real page.py test_real_*)
