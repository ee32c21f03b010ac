"""Where credentials are found, and what a place that is wrong gets: each link of the chain against stand-ins (aws_stand_in.py).

Only the standard library."""
import json
import os
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from aws_stand_in import ROLE, StandIn  # noqa: E402
from harness import LIMIT, Daemon, folder, make_dataset, rows, run_tests, tool  # noqa: E402

SECRETS = ("static/secret", "secret1", "secret2", "token/", "web.identity", "imds-token", "ecs-token", "hunter2")


def probe(*arguments, environment=None, home="/nonexistent"):
    """Lines of auth_probe, which has no environment but the given one."""
    clean = {"HOME": str(home), "PATH": os.environ["PATH"], "AWS_EC2_METADATA_DISABLED": "true",
             **{name: value for name, value in os.environ.items() if name.startswith(("ASAN_", "TSAN_", "UBSAN_", "LSAN_", "LLVM_"))}}
    clean.update(environment or {})
    done = subprocess.run([tool("auth_probe"), *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT, env=clean)
    assert done.returncode in (0, 1), done
    for secret in SECRETS:
        assert secret not in done.stdout + done.stderr, (secret, done)
    return done.stdout.splitlines()


def ok(body):
    return f"ok {len(body)} {zlib.crc32(body):08x}"


X = "s3://bucket/data/x.bin"
GOOD = ok(b"bytes of x")
STATIC = {"AWS_ACCESS_KEY_ID": "AKIDSTATIC", "AWS_SECRET_ACCESS_KEY": "static/secret+key"}


def at(stand, **more):
    return {"AWS_ENDPOINT_URL": stand.url, **more}


def profiles(home, credentials="", config=""):
    (home / ".aws").mkdir(exist_ok=True)
    (home / ".aws/credentials").write_text(credentials)
    (home / ".aws/config").write_text(config)


def refused(lines, *words):
    assert len(lines) == 1 and lines[0].startswith("error ") and all(word in lines[0] for word in words), (lines, words)


def test_the_environment():
    with StandIn() as stand:
        assert probe(X, "s3://bucket/data/a b+%.bin", environment=at(stand, **STATIC)) == [GOOD, ok(b"odd")]
        assert probe("--put", "s3://bucket/new/a b", environment=at(stand, **STATIC)) == ["end"] and stand.objects["new/a b"] == b"hello"
        refused(probe(X, environment=at(stand, AWS_ACCESS_KEY_ID="AKIDSTATIC")), "both an access key ID and a secret access key")
        refused(probe(X, environment=at(stand, **STATIC, AWS_SESSION_TOKEN="a\nb")), "a session token")
        refused(probe(X, environment=at(stand, AWS_ACCESS_KEY_ID="AKIDSTATIC", AWS_SECRET_ACCESS_KEY="hunter2")), "SignatureDoesNotMatch")
        refused(probe(X, environment=at(stand, AWS_ACCESS_KEY_ID="AKIDOTHER", AWS_SECRET_ACCESS_KEY="hunter2")), "InvalidAccessKeyId")
        refused(probe("s3://bucket/data/none", environment=at(stand, **STATIC)), "404")


def test_no_credentials():
    with StandIn() as stand:
        refused(probe(X, environment=at(stand)), "no credentials for s3:// were found", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "AWS_PROFILE",
                "set anonymous: on below remote: in penstock.yaml", "looked at: the environment; /nonexistent/.aws/credentials; /nonexistent/.aws/config;",
                "EC2 metadata: AWS_EC2_METADATA_DISABLED is true")
        assert probe("--anonymous", "s3://public/data/x.bin", environment=at(stand, **STATIC)) == [GOOD]
        assert probe("gs://public/data/x.bin", environment={"STORAGE_EMULATOR_HOST": stand.url}) == [GOOD]


def test_google():
    with StandIn() as stand:
        stand.region = "auto"
        keys = {"GS_ACCESS_KEY_ID": "AKIDSTATIC", "GS_SECRET_ACCESS_KEY": "static/secret+key"}
        assert probe("gs://bucket/data/x.bin", environment={"STORAGE_EMULATOR_HOST": stand.url, **keys}) == [GOOD]
        refused(probe("gs://bucket/data/x.bin", environment={"STORAGE_EMULATOR_HOST": stand.url, "GS_ACCESS_KEY_ID": "x"}), "GS_ACCESS_KEY_ID")


def test_another_region():
    """The server says where the bucket is; the request is signed again for that region, once for each bucket."""
    with StandIn() as stand:
        stand.region = "eu-north-1"
        assert probe(X, X, environment=at(stand, **STATIC)) == [GOOD, GOOD] and len(stand.seen) == 3
        assert probe("--region", "eu-north-1", X, environment=at(stand, **STATIC)) == [GOOD] and len(stand.seen) == 4


def test_profiles():
    with StandIn() as stand, folder() as home:
        keys = "aws_access_key_id = AKIDSTATIC\naws_secret_access_key = static/secret+key\n"
        profiles(home, f"[default]\n{keys}[work]\n{keys}", f"[profile away]\nregion = eu-west-9\nendpoint_url = {stand.url}\n{keys}")
        assert probe(X, environment=at(stand), home=home) == [GOOD]
        assert probe(X, environment=at(stand, AWS_PROFILE="work"), home=home) == [GOOD]
        stand.region = "eu-west-9"
        count = len(stand.seen)
        assert probe("--profile", "away", X, environment={"AWS_ACCESS_KEY_ID": "ignored", "AWS_SECRET_ACCESS_KEY": "hunter2"}, home=home) == [GOOD]
        assert len(stand.seen) == count + 1
        refused(probe("--profile", "none", X, environment=at(stand), home=home), "profile none does not exist", ".aws/credentials")
        for text, words in (("[default\nhunter2", (".aws/credentials:1:", "] after the name")), ("[default]\nhunter2\n", (":2:", "KEY = VALUE")),
                            ("hunter2 = x\n", (":1:", "before the first")), ("[default]\naws_access_key_id = x\n", ("only the ID",)),
                            ("[default]\nsso_session = x\n", ("Identity Center", "credential_process")),
                            ("\0hunter2", ("zero bytes",)), ("[default]\n" + "#" * 70000, ("larger than 65536",)),
                            (f"[default]\nrole_arn = {ROLE}\n", ("needs source_profile",)),
                            (f"[default]\nrole_arn = {ROLE}\nsource_profile = b\n[b]\nrole_arn = {ROLE}\nsource_profile = default\n", ("circle",)),
                            (f"[default]\nrole_arn = {ROLE}\nsource_profile = default\nmfa_serial = x\n", ("mfa_serial",)),
                            (f"[default]\nrole_arn = {ROLE}\ncredential_source = Moon\n", ("Ec2InstanceMetadata",))):
            profiles(home, text)
            refused(probe(X, environment=at(stand), home=home), *words)


def test_roles():
    with StandIn() as stand, folder() as home:
        keys = "aws_access_key_id = AKIDSTATIC\naws_secret_access_key = static/secret+key\n"
        role = f"role_arn = {ROLE}\nsource_profile = base\nexternal_id = outside & in\n"
        profiles(home, f"[base]\n{keys}", f"[default]\n{role}[profile wrong]\nrole_arn = arn:aws:iam::999999999999:role/other\nsource_profile = base\n"
                 f"[profile self]\n{keys}role_arn = {ROLE}\nsource_profile = self\n[profile bad]\nrole_arn = not a role\nsource_profile = base\n"
                 f"[profile env]\nrole_arn = {ROLE}\ncredential_source = Environment\n")
        assert probe(X, environment=at(stand), home=home) == [GOOD] and stand.issued == 1
        assert probe("--profile", "self", X, environment=at(stand), home=home) == [GOOD]
        assert probe("--profile", "env", X, environment=at(stand, **STATIC), home=home) == [GOOD]
        refused(probe("--profile", "wrong", X, environment=at(stand), home=home), "999999999999", "AccessDenied")
        refused(probe("--profile", "bad", X, environment=at(stand), home=home), "expected a role such as arn:aws:iam")
        for script, word in (((200, "text/xml", "<html>", {}), "not the XML"), ((200, "text/xml", "<a/>", {}), "got only empty ones"),
                             ((200, "text/xml", b"x" * 200000, {}), "larger"), ((200, "text/xml", "<!DOCTYPE a><a/>", {}), "document type")):
            stand.script = {"/": script}
            lines = probe(X, environment=at(stand), home=home)
            assert lines[0].startswith("error") and ROLE in lines[0], (lines, word)


def test_web_identity():
    with StandIn() as stand, folder() as home:
        token = home / "token"
        token.write_text("web.identity-token\n")
        environment = at(stand, AWS_ROLE_ARN=ROLE, AWS_WEB_IDENTITY_TOKEN_FILE=str(token))
        assert probe(X, environment=environment) == [GOOD]
        for text, word in (("", "expected a token"), ("a b", "expected a token"), ("other", "InvalidIdentityToken")):
            token.write_text(text)
            refused(probe(X, environment=environment), word)
        token.unlink()
        refused(probe(X, environment=environment), "cannot be read: No such file")
        del environment["AWS_ROLE_ARN"]
        refused(probe(X, environment=environment), "AWS_ROLE_ARN is not")


def mount_token(place, number, token):
    """As the kubelet writes a projected token: a link to a link to a folder of its own, which replaces the one before."""
    folders = [place / f"..{number}", place / f"..{number - 1}"]
    folders[0].mkdir()
    (folders[0] / "token").write_text(token)
    (place / "..new").symlink_to(folders[0].name)
    (place / "..new").rename(place / "..data")
    if number == 1:
        (place / "token").symlink_to("..data/token")
    else:
        shutil.rmtree(folders[1])


def test_a_pod_s_token_that_is_replaced():
    """A daemon that is confined to its roots reads the token that Kubernetes put in the place of the one before."""
    with StandIn() as stand, folder() as home:
        tars = make_dataset(home / "tars", per_class=4, tars=True, per_shard=12)
        stand.objects["data/t.tar"] = next(Path(tars).glob("*.tar")).read_bytes()
        stand.lifetime = 120  # less than the five minutes before which credentials are fetched again
        (home / "token").mkdir()
        mount_token(home / "token", 1, stand.web_token)
        more = {"AWS_ENDPOINT_URL": stand.url, "AWS_ROLE_ARN": ROLE, "AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "token/token"), "AWS_REGION": "us-east-1"}
        environment = {**{name: value for name, value in os.environ.items() if not name.startswith("AWS_")}, **more, "HOME": str(home)}
        with Daemon(home, "--root", "s3://bucket", "--root", str(tars), environment=environment) as daemon:
            local = rows(daemon.trainer(source=f"{tars}/*.tar", batch_size=4, epochs=1).finish())
            for number in (2, 3):
                assert rows(daemon.trainer(source="s3://bucket/data/t.tar", batch_size=4, epochs=1).finish()) == local, daemon.text()
                before, stand.web_token = stand.issued, f"web.identity-token-{number}"
                mount_token(home / "token", number, stand.web_token)
                time.sleep(1.1)  # credentials are not fetched twice within a second
            # On a busy machine, those of the stream before may have been fetched later than its last batch.
            for _ in range(5):
                assert rows(daemon.trainer(source="s3://bucket/data/t.tar", batch_size=4, epochs=1).finish()) == local, daemon.text()
                if stand.issued > before:
                    break
                time.sleep(1.1)
            assert stand.issued > before and "Landlock" in daemon.text(), daemon.text()
            assert "web.identity" not in daemon.text() + str(daemon.status())


def test_containers():
    with StandIn() as stand:
        environment = at(stand, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{stand.url}/ecs", AWS_CONTAINER_AUTHORIZATION_TOKEN="ecs-token")
        assert probe(X, environment=environment) == [GOOD]
        refused(probe(X, environment={**environment, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "other"}), "the container's credentials", "403")
        refused(probe(X, environment={**environment, "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/ecs"}), "FULL_URI", "https://")
        for script, word in (((200, "x", "{", {}), "not JSON"), ((200, "x", "[]", {}), "a JSON object"), ((200, "x", "{}", {}), "got only empty"),
                             ((200, "x", '{"AccessKeyId":"a","SecretAccessKey":"hunter2","Expiration":"soon"}', {}), "expiration"),
                             ((200, "x", b"x" * 100000, {}), ""), ((302, "x", "", {"Location": stand.url + "/stolen"}), "")):
            stand.script = {"/ecs": script}
            refused(probe(X, environment=environment), "the container's credentials", word)
        assert not stand.count("/stolen")


def test_instances():
    with StandIn() as stand:
        environment = at(stand, AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=stand.url)
        assert probe(X, environment=environment) == [GOOD] and stand.count("PUT /latest/api/token") == 1
        base = "/latest/meta-data/iam/security-credentials/"
        for status, words in ((403, ("no credentials for s3:// were found", "EC2 metadata: status 403")), (500, ("instance's role", "status 500"))):
            stand.script = {"/latest/api/token": (status, "x", "", {})}
            lines = probe(X, environment=environment)
            refused(lines, "a token", *words)
            assert "s3:GetObject" not in lines[0], lines
        for place, script, word in ((base, (404, "x", "", {}), "no credentials"),
                                    (base, (200, "x", "<html>", {}), "the name of a role"), (base, (200, "x", "../x y", {}), "the name of a role"),
                                    (base + "the-role", (200, "x", '{"Code":"Failed"}', {}), "refused: Failed"),
                                    (base + "the-role", (500, "x", "", {}), "instance's role")):
            stand.script = {place: script}
            refused(probe(X, environment=environment), word)
        refused(probe(X, environment={**environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}), "no credentials", "EC2 metadata: no answer")
        refused(probe(X, environment={**environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT": "ftp://x"}), "AWS_EC2_METADATA_SERVICE_ENDPOINT")


def test_programs():
    with StandIn() as stand, folder() as home:
        made = json.dumps({"Version": 1, "AccessKeyId": "AKIDSTATIC", "SecretAccessKey": "static/secret+key"})
        (home / "keys.json").write_text(made)
        for early in ((), ("--early", "--confine")):
            profiles(home, f"[default]\ncredential_process = cat '{home}/keys.json'\n")
            assert probe(*early, X, environment=at(stand), home=home) == [GOOD]
        # Too late: a confined process starts no program.
        refused(probe("--confine", X, environment=at(stand), home=home), "a confined penstockd runs no programs")
        for command, word in (("exit 3", "status 3"), ("echo hunter2", "not JSON"), ("echo '{}'", "only empty"), ("kill -9 $$", "signal 9"),
                              ("yes hunter2", "more than 64 KiB"), ("echo '{\"Version\": 2}'", '"Version": 1')):
            profiles(home, f"[default]\ncredential_process = {command}\n")
            refused(probe(X, environment=at(stand), home=home), "credential_process", word)


def test_they_are_fetched_again():
    """Before they expire; and when a server says that they have. Meanwhile nothing fails."""
    with StandIn() as stand:
        environment = at(stand, AWS_CONTAINER_CREDENTIALS_FULL_URI=f"{stand.url}/ecs", AWS_CONTAINER_AUTHORIZATION_TOKEN="ecs-token")
        assert probe(X, X, environment=environment) == [GOOD] * 2 and stand.issued == 1
        stand.lifetime = 120  # less than the five minutes before which they are fetched again
        assert probe("--pause", 1, X, X, environment=environment) == [GOOD] * 2 and stand.issued >= 3
        stand.lifetime = 3600
        expired = []

        def expire(stand):
            """What was issued first has become useless."""
            made = stand.issue()
            if not expired:
                expired.append(made["AccessKeyId"])
                stand.keys[made["AccessKeyId"]] = (made["SecretAccessKey"], "another")
            return 200, "application/json", json.dumps(made), {}

        stand.script = {"/ecs": expire}
        assert probe(X, environment=environment) == [GOOD] and stand.count("GET /ecs") >= 2


def test_roots_and_redirects():
    with StandIn() as stand, StandIn() as other:
        environment = at(stand, **STATIC)
        for root, url, good in (("s3://bucket/data", X, True), ("s3://bucket/dat", X, False), ("s3://bucket-evil", X, False), ("gs://bucket", X, False),
                                (f"{stand.url}/public", f"{stand.url}/public/data/x.bin", True), (stand.url, f"{stand.url}/public/data/x.bin", True),
                                (stand.url, f"{other.url}/public/data/x.bin", False)):
            lines = probe("--root", root, url, environment=environment)
            assert lines == [GOOD] if good else "outside the URLs that this penstockd may read" in lines[0], (root, url, lines)
        refused(probe("--root", "s3://bucket", "s3://bucket/../secret", environment=environment), "..")
        refused(probe("http://example.com/x"), "in the clear", "plain_http")
        # A redirect to another server: without roots it is followed, without credentials; with roots it is not.
        stand.script = {"/bucket/data/x.bin": (307, "text/plain", "", {"Location": f"{other.url}/public/data/x.bin"})}
        assert probe(X, environment=environment) == [GOOD]
        assert all("authorization" not in headers for _, _, headers, _ in other.seen)
        count = len(other.seen)
        refused(probe("--root", "s3://bucket", X, environment=environment), "redirect", "outside")
        assert len(other.seen) == count


def test_the_hub():
    with StandIn() as stand, folder() as home:
        where = "/datasets/org/name/resolve/main/x"
        stand.script = {where: lambda stand: (200, "x", b"hub", {}) if stand.seen[-1][2].get("authorization") == "Bearer hunter2" else (401, "x", "", {})}
        environment = {"HF_ENDPOINT": stand.url}
        assert probe("hf://datasets/org/name/x", environment={**environment, "HF_TOKEN": "hunter2"}) == [ok(b"hub")]
        (home / ".cache/huggingface").mkdir(parents=True)
        (home / ".cache/huggingface/token").write_text("hunter2\n")
        assert probe("hf://datasets/org/name/x", environment=environment, home=home) == [ok(b"hub")]
        assert "401" in probe("hf://datasets/org/name/x", environment=environment)[0]
        # A listing of two pages, below a root and not.
        tree = "/api/datasets/org/name/tree/main"

        def page(stand):
            second = "cursor=two" in stand.seen[-1][1]
            files = [{"type": "file", "path": "b.tar" if second else "a.tar", "size": 7, "oid": "1"}]
            more = {} if second else {"Link": f'<{stand.url}{tree}?recursive=true&cursor=two>; rel="next"'}
            return 200, "application/json", json.dumps(files), more

        stand.script = {tree: page}
        listed = ['a.tar 7 "1"', 'b.tar 7 "1"', "end"]
        for root in ((), ("--root", "hf://datasets/org/name")):
            assert probe(*root, "--list", "hf://datasets/org/name", environment=environment) == listed
        for root in ("hf://datasets/org/nam", "hf://datasets/org/name2", "s3://bucket"):
            refused(probe("--root", root, "--list", "hf://datasets/org/name", environment=environment), "outside")


if __name__ == "__main__":
    run_tests(globals())
