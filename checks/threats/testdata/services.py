"""Four services that find their handlers in the ways of Python: http.server, Flask over
werkzeug's server, the same Flask over wsgiref, which joins X_User and X-User as CGI does, and an http.server
that reads only the bodies of POST, PUT and PATCH.
Arguments: their ports."""

import json
import logging
import posixpath
import sys
import threading
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import ThreadingMixIn
from urllib.parse import parse_qs, unquote, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flask import Flask, request, session
from itsdangerous import BadSignature, URLSafeSerializer
from werkzeug.serving import make_server

exact = {
    "/by/header": "header", "/by/query": "query", "/by/cookie": "cookie", "/by/bearer": "bearer",
    "/by/claim": "claim", "/if/header": "ifheader", "/if/query": "ifquery", "/if/cookie": "ifcookie", "/if/number": "ifnumber",
    "/by/host": "host", "/by/method": "method", "/plan/header": "planheader", "/plan/query": "planquery",
    "/signed/cookie": "signedcookie", "/signed/query": "signedquery", "/signed/header": "signedheader", "/signed/auth": "signedauth",
    "/if/host": "ifhost", "/gone": "gone",
    "/plan/cookie": "plancookie", "/plan/none": "anonymous",
}
writing = threading.Lock()


def record(**values):
    with writing:
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()


def ends(values):
    """The values that services read: most read the first one, others the last one."""
    return [values[0], values[-1]] if values else [""]


def bare_host(host):
    return host.split(":")[0].lower().rstrip(".")


def by_host(host):
    if host == "api.example.com":
        return ["api"]
    return ["wild"] if host.endswith(".internal.example") else []


# http.server.

def handler(method, path):
    """The name of the handler of a path, and the user that the path names."""
    bare = path[:-1] if len(path) > 1 and path.endswith("/") else path
    if bare == "/login":
        return ("login" if method == "POST" else None), None
    if bare == "/admin" or path.startswith("/admin/"):
        return "admin", None
    if bare == "/area/open" or path.startswith(("/area/open/", "/public/")):
        return "public", None
    if path.startswith("/area/"):
        return "closed", None
    if bare.startswith("/users/") and bare.count("/") == 2:
        return "user", bare.split("/")[2]
    return exact.get(bare), None


class Plain(BaseHTTPRequestHandler):
    server_name = "python"
    bodies = None  # methods whose bodies it reads; None for all
    protocol_version = "HTTP/1.1"
    timeout = 60

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.serve
        raise AttributeError(name)

    def log_message(self, *args):
        pass

    def cookie(self, name):
        try:
            morsel = SimpleCookie(self.headers.get("Cookie", "")).get(name)
        except CookieError:
            return [""]
        return [morsel.value if morsel else ""]

    def serve(self):
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit():
            self.close_connection = True
            length = "0"
        if self.bodies is None or self.command in self.bodies:
            self.rfile.read(int(length))
        target = self.path.split("?", 1)[0].split("#", 1)[0]
        paths = {unquote(target)}
        try:
            paths.add(unquote(urlsplit(self.path).path))
            values = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        except ValueError:
            values = {}
        paths |= {posixpath.normpath(p) for p in paths}
        found = [handler(self.command, p) for p in paths]
        host = bare_host(self.headers.get("Host", ""))
        all_of = self.headers.get_all
        record(
            server=self.server_name, case=self.headers.get("X-Case", ""), ran=[n for n, _ in found if n] + by_host(host),
            method=self.command, path=self.path, host=[host], user=ends(all_of("X-User")), plan=ends(all_of("X-Plan")),
            apikey=ends(all_of("X-Api-Key")), query=ends(values.get("user")), queryplan=ends(values.get("plan")),
            cookie=self.cookie("session"), cookieplan=self.cookie("plan"), authorization=ends(all_of("Authorization")),
            id=[i for _, i in found if i is not None], forwarding=["%s: %s" % h for h in self.headers.items()],
        )
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")


class Unread(Plain):
    server_name = "unread"
    bodies = ("POST", "PUT", "PATCH")


# Flask.

app = Flask(__name__)
app.secret_key = "threats"
signer = URLSafeSerializer(app.secret_key, "t")


def subject(text, words=True):
    """The user of a signed value, as Flask's own library reads it: the last word of a header, or all of a parameter."""
    words = (text or "").split() if words else [text or ""]
    try:
        return signer.loads(words[-1]) if words else ""
    except (BadSignature, ValueError):
        return ""


app.url_map.strict_slashes = False
everything = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def reach(name, user=None):
    values = request.headers
    host = bare_host(request.host)
    record(
        server=request.environ["threats.server"], case=values.get("X-Case", ""), ran=[name] + by_host(host), method=request.method,
        path=request.path, host=[host], user=[values.get("X-User", "")], plan=[values.get("X-Plan", "")],
        apikey=[values.get("X-Api-Key", "")], query=ends(request.args.getlist("user")),
        queryplan=ends(request.args.getlist("plan")), cookie=ends(request.cookies.getlist("session")),
        cookieplan=ends(request.cookies.getlist("plan")), authorization=[values.get("Authorization", "")],
        id=[] if user is None else [user],
        signed=[session.get("user", ""), subject(request.cookies.get("session")), subject(request.args.get("user"), words=False), subject(values.get("X-User")), subject(values.get("Authorization"))],
        forwarding=["%s: %s" % (k, v) for k, v in request.environ.items() if k.startswith("HTTP_")],
    )
    return "ok"


def route(name, *paths, methods=None):
    for i, path in enumerate(paths):
        app.add_url_rule(path, "%s%d" % (name, i), lambda rest=None: reach(name), methods=methods or everything)


route("login", "/login", methods=["POST"])
route("admin", "/admin", "/admin/<path:rest>")
route("closed", "/area/<path:rest>")
route("public", "/area/open", "/area/open/<path:rest>", "/public/<path:rest>")
for path, name in exact.items():
    route(name, path)
app.add_url_rule("/users/<user>", "user", lambda user: reach("user", user), methods=everything)


@app.errorhandler(404)
@app.errorhandler(405)
def missing(error):
    reach("none")
    return "none", error.code


class Overrides:
    """Follows headers that replace the method and the path, as middleware of many frameworks does."""

    def __init__(self, app, server):
        self.app, self.server = app, server

    def __call__(self, environ, start_response):
        environ["threats.server"] = self.server
        for name in ("HTTP_X_HTTP_METHOD_OVERRIDE", "HTTP_X_HTTP_METHOD", "HTTP_X_METHOD_OVERRIDE"):
            if environ.get(name, "").upper() in everything:
                environ["REQUEST_METHOD"] = environ[name].upper()
        for name in ("HTTP_X_ORIGINAL_URL", "HTTP_X_REWRITE_URL"):
            if environ.get(name, "").startswith("/"):
                environ["PATH_INFO"] = unquote(environ[name].split("?")[0])
        return self.app(environ, start_response)


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, *args):
        pass


def main(plain, flask, cgi, unread):
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    joined = Threads(("127.0.0.1", cgi), Quiet)
    joined.set_app(Overrides(app, "wsgi"))
    servers = [
        ThreadingHTTPServer(("127.0.0.1", plain), Plain),
        make_server("127.0.0.1", flask, Overrides(app, "flask"), threaded=True),
        joined,
        ThreadingHTTPServer(("127.0.0.1", unread), Unread),
    ]
    threads = [threading.Thread(target=s.serve_forever) for s in servers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


main(*map(int, sys.argv[1:]))
