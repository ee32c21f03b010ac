"""Stand-ins for AWS's metadata services (EC2, ECS), STS and S3, for tests only: no real one is on loopback.

One HTTP server answers for all of them. It checks Signature Version 4 by an implementation of its own (hashlib, hmac), not by
penstock's. `StandIn.script` says what goes wrong; `StandIn.seen` is what was asked.

Only the standard library."""
import datetime
import hashlib
import hmac
import http.server
import json
import threading
import urllib.parse

ROLE = "arn:aws:iam::123456789012:role/reader"


def expiry(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def digest(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def signature(secret, method, path, query, headers, signed, payload, day, region, service, date):
    """Signature Version 4 as AWS's documentation tells it."""
    pairs = sorted(tuple((part.split("=", 1) + [""])[:2]) for part in query.split("&") if part)
    canonical = "\n".join([method, path, "&".join(f"{name}={value}" for name, value in pairs),
                           "".join(f"{name}:{headers[name].strip()}\n" for name in signed), ";".join(signed), payload])
    scope = f"{day}/{region}/{service}/aws4_request"
    key = b"AWS4" + secret.encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{digest(canonical)}".encode(), hashlib.sha256).hexdigest()


class StandIn:
    def __init__(self):
        self.keys = {"AKIDSTATIC": ("static/secret+key", None)}  # id: (secret, token)
        self.objects = {"data/x.bin": b"bytes of x", "data/a b+%.bin": b"odd", "data/c/1.bin": b"1"}
        self.script = {}
        self.seen = []
        self.issued = 0
        self.lifetime = 3600
        self.region = "us-east-1"
        self.web_token = "web.identity-token"
        self.lock = threading.Lock()
        stand = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with stand.lock:
                    stand.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                try:
                    status, kind, text, more = stand.answer(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                    text = text if isinstance(text, bytes) else text.encode()
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(text)))
                    for name, value in more.items():
                        self.send_header(name, value)
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(text)
                except (BrokenPipeError, ConnectionResetError):
                    pass

            do_GET = do_PUT = do_POST = do_HEAD = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def count(self, part):
        return sum(part in f"{command} {path} {body!r}" for command, path, _, body in self.seen)

    def issue(self):
        """New credentials of a session."""
        with self.lock:
            self.issued += 1
            name = f"ASIA{self.issued}"
            self.keys[name] = (f"secret{self.issued}", f"token/{self.issued}+==")
        return {"AccessKeyId": name, "SecretAccessKey": self.keys[name][0], "Token": self.keys[name][1], "Expiration": expiry(self.lifetime)}

    def answer(self, command, path, headers, body):
        place, _, query = path.partition("?")
        if place in self.script:
            scripted = self.script[place]
            return scripted(self) if callable(scripted) else scripted
        if place == "/latest/api/token":
            assert command == "PUT" and headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
            return 200, "text/plain", "imds-token", {}
        if place.startswith("/latest/meta-data/iam/security-credentials/"):
            if headers.get("x-aws-ec2-metadata-token") != "imds-token":
                return 401, "text/plain", "", {}
            name = place.rsplit("/", 1)[1]
            return 200, "text/plain", json.dumps({"Code": "Success", **self.issue()}) if name else "the-role\n", {}
        if place == "/ecs":
            if headers.get("authorization") != "ecs-token":
                return 403, "application/json", "{}", {}
            return 200, "application/json", json.dumps(self.issue()), {}
        if command == "POST" and place == "/":
            return self.sts(headers, body)
        return self.s3(command, place, query, headers, body)

    def fault(self, status, code, more=None):
        return status, "application/xml", f"<Error><Code>{code}</Code><Message>{code}</Message></Error>", more or {}

    def sts(self, headers, body):
        form = dict(urllib.parse.parse_qsl(body.decode()))
        if form["RoleArn"] != ROLE:
            return 403, "text/xml", "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>", {}
        if form["Action"] == "AssumeRole":
            wrong = self.check("POST", "/", "", headers, body, "sts")
            if wrong:
                return self.fault(*wrong)
            assert form.get("ExternalId", "outside & in") == "outside & in", form
        elif form.get("WebIdentityToken") != self.web_token:
            return self.fault(400, "InvalidIdentityToken")
        made = self.issue()
        return 200, "text/xml", (f'<{form["Action"]}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{form["Action"]}Result><Credentials>'
                                 f'<AccessKeyId>{made["AccessKeyId"]}</AccessKeyId><SecretAccessKey>{made["SecretAccessKey"]}</SecretAccessKey>'
                                 f'<SessionToken>{made["Token"]}</SessionToken><Expiration>{made["Expiration"]}</Expiration></Credentials>'
                                 f'</{form["Action"]}Result></{form["Action"]}Response>'), {}

    def check(self, command, path, query, headers, body, service):
        """(status, code) of what is wrong with a signature; None: nothing."""
        line = headers.get("authorization", "")
        if not line.startswith("AWS4-HMAC-SHA256 "):
            return 403, "AccessDenied"
        fields = dict(part.strip().split("=", 1) for part in line.split(" ", 1)[1].split(","))
        name, day, region, of, _ = fields["Credential"].split("/")
        if name not in self.keys:
            return 403, "InvalidAccessKeyId"
        secret, token = self.keys[name]
        if token != headers.get("x-amz-security-token"):
            return 400, "ExpiredToken"
        if of != service:
            return 400, "AuthorizationHeaderMalformed"
        if region != self.region and service == "s3":
            return 400, "AuthorizationHeaderMalformed", {"x-amz-bucket-region": self.region}
        payload = headers["x-amz-content-sha256"]
        if payload not in ("UNSIGNED-PAYLOAD", digest(body)):
            return 400, "XAmzContentSHA256Mismatch"
        signed = fields["SignedHeaders"].split(";")
        for name in headers:
            if name.startswith("x-amz-") and name not in signed:
                return 403, "AccessDenied"
        made = signature(secret, command, path, query, headers, signed, payload, day, region, of, headers["x-amz-date"])
        return None if hmac.compare_digest(made, fields["Signature"]) else (403, "SignatureDoesNotMatch")

    def s3(self, command, place, query, headers, body):
        bucket, _, key = place[1:].partition("/")
        if bucket != "public":
            wrong = self.check(command, place, query, headers, body, "s3")
            if wrong:
                return self.fault(*wrong)
        elif "authorization" in headers:
            return self.fault(400, "InvalidRequest")
        key = urllib.parse.unquote(key)
        if bucket == "payer" and headers.get("x-amz-request-payer") != "requester":
            return self.fault(403, "AccessDenied")
        if command == "PUT":
            self.objects[key] = body
            return 200, "text/plain", b"", {}
        if key not in self.objects:
            return self.fault(404, "NoSuchKey")
        return 200, "application/octet-stream", self.objects[key], {"ETag": '"%s"' % hashlib.md5(self.objects[key]).hexdigest(), "Accept-Ranges": "bytes"}
