#!/usr/bin/env python3
"""packaging/oci.py on trees of a few files, read again by oci_unpack.py.

    test_oci.py OCI.PY

Standard library only; needs no root."""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

import oci_unpack

OCI = Path(sys.argv.pop(1)).resolve()
CREATED = 1_700_000_000


def write(root, path, text="", mode=0o644, time=CREATED - 1000):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    os.utime(file, (time, time))


class Image(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = Path(room.name)
        self.base, self.full, self.out = (self.room / name for name in ("base", "full", "out"))
        self.out.mkdir()
        write(self.base, "usr/bin/tool", "a program", 0o4755)
        write(self.base, "etc/kept", "kept")
        write(self.base, "etc/changed", "old")
        write(self.base, "etc/removed", "removed")
        write(self.base, "var/cache/a/b", "removed with its folder")
        write(self.base, "opt/was/folder", "inside")
        write(self.base, "new", "newer than the release", time=CREATED + 5000)
        (self.base / "bin").symlink_to("usr/bin")
        os.link(self.base / "usr/bin/tool", self.base / "usr/bin/zz-other-name")
        (self.base / "empty").mkdir(mode=0o700)

    def write_image(self, *roots, name="image.tar", check=True):
        path = self.room / name
        words = ["--name", "penstock", "--version", "1.2.3", "--architecture", "arm64"]
        command = [sys.executable, OCI, path, *words, "--created", str(CREATED), *roots]
        done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
            return path
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def upgraded(self):
        """`full`: base after an installation."""
        shutil.copytree(self.base, self.full, symlinks=True)
        write(self.full, "etc/changed", "new")
        write(self.full, "usr/bin/added", "added", 0o755)
        (self.full / "etc/removed").unlink()
        shutil.rmtree(self.full / "var/cache/a")
        shutil.rmtree(self.full / "opt/was")
        (self.full / "opt/was").symlink_to("/usr")

    def tree(self, root):
        found = {}
        for path in sorted(root.rglob("*")):
            status = path.lstat()
            if path.is_symlink():
                found[str(path.relative_to(root))] = os.readlink(path)
                continue
            text = path.read_text() if path.is_file() else None
            found[str(path.relative_to(root))] = (text, status.st_mode, status.st_uid)
        return found

    def test_one_layer(self):
        config, layers = oci_unpack.unpack(self.write_image(self.base), self.out)
        self.assertEqual(self.tree(self.out), self.tree(self.base))
        self.assertTrue((self.out / "usr/bin/tool").samefile(self.out / "usr/bin/zz-other-name"))
        self.assertEqual((config["os"], config["architecture"]), ("linux", "arm64"))
        self.assertEqual(config["created"], "2023-11-14T22:13:20+00:00")
        self.assertEqual(config["config"]["Cmd"], ["penstockd"])
        self.assertEqual(config["config"]["Labels"]["org.opencontainers.image.version"], "1.2.3")
        names = [member.name for member in layers[0]]
        self.assertEqual(names, sorted(names, key=lambda name: name.split("/")))
        for member in layers[0]:
            self.assertEqual((member.uname, member.gname), ("", ""))
            self.assertLessEqual(member.mtime, CREATED)
        times = {member.name: member.mtime for member in layers[0]}
        self.assertEqual((times["new"], times["etc/kept"]), (CREATED, CREATED - 1000))

    def test_second_layer_has_what_changed(self):
        self.upgraded()
        _, layers = oci_unpack.unpack(self.write_image(self.base, self.full), self.out)
        self.assertEqual(self.tree(self.out), self.tree(self.full))
        names = [member.name for member in layers[1]]
        gone = ["etc/.wh.removed", "var/cache/.wh.a"]
        self.assertEqual(names, [*gone, "etc/changed", "opt/was", "usr/bin/added"])

    def test_link_becomes_folder(self):
        shutil.copytree(self.base, self.full, symlinks=True)
        (self.full / "bin").unlink()
        write(self.full, "bin/tool", "a program", 0o4755)
        oci_unpack.unpack(self.write_image(self.base, self.full), self.out)
        self.assertEqual(self.tree(self.out), self.tree(self.full))

    def test_same_bytes(self):
        """The place of the roots, and times after the release's, are not in the image."""
        self.upgraded()
        again = [self.room / "elsewhere" / name for name in ("one", "two")]
        for source, target in zip((self.base, self.full), again):
            shutil.copytree(source, target, symlinks=True)
            for root in (source, target):
                # copytree made a file of each name.
                (root / "usr/bin/zz-other-name").unlink()
                os.link(root / "usr/bin/tool", root / "usr/bin/zz-other-name")
                for path in root.rglob("*"):
                    if path.is_symlink() or path.is_dir():
                        later = CREATED + (1 if root is source else 2)
                        os.utime(path, (later, later), follow_symlinks=False)
        first = self.write_image(self.base, self.full)
        second = self.write_image(*again, name="again.tar")
        self.assertEqual(first.read_bytes(), second.read_bytes())

    def test_refuses_what_it_cannot_write(self):
        os.mkfifo(self.base / "fifo")
        said = self.write_image(self.base, check=False)
        self.assertIn("fifo is neither a file nor a folder nor a link", said)

    def test_damage_is_found(self):
        path = self.write_image(self.base)
        with tarfile.open(path) as tar:
            index = json.loads(tar.extractfile("index.json").read())
            name = index["manifests"][0]["digest"].replace(":", "/")
            where = tar.getmember(f"blobs/{name}").offset_data
        data = bytearray(path.read_bytes())
        data[where + 20] ^= 1
        path.write_bytes(data)
        with self.assertRaises(oci_unpack.Damaged):
            oci_unpack.unpack(path, self.out)


unittest.main()
