# Datasets behind URLs: a web server with ranges, and rclone's S3 where it is installed.
penstock_e2e(remote remote.py TIMEOUT 300)
