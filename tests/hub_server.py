"""A stand-in for the Hugging Face Hub on 127.0.0.1: the few requests of a download and of an upload."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote

import huggingface_hub


def reached(server, home, monkeypatch):
    """Have the libraries of the hub ask this server, and keep what they download in `home`."""
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", server.address)
    template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HOME", str(home))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "no token"))
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    monkeypatch.setattr(huggingface_hub.file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template, False)
    monkeypatch.setattr(huggingface_hub.hf_api.api, "endpoint", server.address)
    monkeypatch.setenv("HF_TOKEN", "a-token")


class Hub:
    """Repositories in memory: `files[repository][revision]` is {name: bytes}; a commit is the SHA-1 of its number."""

    def __init__(self):
        self.commits = {}  # repository -> [{name: bytes}, …]
        self.tags = {}  # (repository, tag) -> number of the commit
        self.private = {}
        self.requests = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *arguments):
                pass

            def do_HEAD(self):
                hub.answer(self, b"")

            def do_GET(self):
                hub.answer(self, b"")

            def do_POST(self):
                hub.answer(self, self.rfile.read(int(self.headers["Content-Length"])))

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def add(self, repository, folder):
        """A commit with the files of a folder; its SHA-1."""
        files = {str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}
        self.commits.setdefault(repository, []).append(files)
        return self.commit(len(self.commits[repository]) - 1)

    @staticmethod
    def commit(number):
        return hashlib.sha1(str(number).encode()).hexdigest()

    def find(self, repository, revision):
        """The number of a revision's commit, or the code of the error."""
        if repository not in self.commits:
            return "RepoNotFound"
        commits = self.commits[repository]
        names = {self.commit(number): number for number in range(len(commits))} | {"main": len(commits) - 1}
        names |= {tag: number for (name, tag), number in self.tags.items() if name == repository}
        return names.get(revision, "RevisionNotFound")

    def answer(self, request, body):
        self.requests.append(f"{request.command} {request.path}")
        parts = unquote(request.path.split("?")[0]).strip("/").split("/")
        parts = parts[1:] if parts[0] == "datasets" else parts
        status, headers, content = 200, {}, b""
        if parts[0] == "api":
            if parts[1:3] == ["repos", "create"]:
                given = json.loads(body)
                name = f"{given['organization']}/{given['name']}" if given.get("organization") else given["name"]
                if name in self.commits:
                    status = 409
                else:
                    self.commits[name], self.private[name] = (
                        [{}],
                        given.get("private") or given.get("visibility") == "private",
                    )
                found = {"url": f"{self.address}/{name}", "name": name}
            elif parts[1] == "validate-yaml":
                found = {"errors": [], "warnings": []}
            elif parts[1] == "whoami-v2":
                found = {"name": "user", "type": "user"}
            else:
                revision = [parts[5].replace("%2F", "/"), *parts[6:]] if len(parts) > 5 else []
                status, headers, found = self.repository(
                    "/".join(parts[2:4]), parts[4:5] + revision, body, request.path
                )
            content, headers["Content-Type"] = json.dumps(found).encode(), "application/json"
        else:
            repository, revision, name = "/".join(parts[:2]), parts[3], "/".join(parts[4:])
            number = self.find(repository, revision)
            if isinstance(number, str) or name not in self.commits[repository][number]:
                error = number if isinstance(number, str) else "EntryNotFound"
                status, headers = 404, {"X-Error-Code": error, "X-Repo-Commit": self.commit(0)}
            else:
                content = self.commits[repository][number][name]
                headers = {"X-Repo-Commit": self.commit(number), "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        if "Range" in request.headers and status == 200:
            first, last = request.headers["Range"].removeprefix("bytes=").split("-")
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            content, status = content[int(first) : int(last) + 1], 206
        request.send_response(status)
        for key, value in (headers | {"Content-Length": str(len(content))}).items():
            request.send_header(key, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(content)

    def repository(self, name, path, body, query):
        """What `/api/models/NAME/…` answers: status, headers, JSON."""
        revision = path[1] if len(path) > 1 else "main"
        number = self.find(name, revision)
        if isinstance(number, str):
            return 404, {"X-Error-Code": number}, {"error": number}
        files, within = self.commits[name][number], "".join(f"{folder}/" for folder in path[2:])
        if path and path[0] == "paths-info":
            wanted = json.loads(body)["paths"] if body[:1] == b"{" else parse_qs(body.decode())["paths"]
            return 200, {}, [entry(file, files[file]) for file in wanted if file in files]
        if path and path[0] == "tree":
            found = {file: data for file, data in files.items() if file.startswith(within)}
            folders = {within + file.removeprefix(within).partition("/")[0] for file in found}
            if "recursive=false" in query:
                found = {file: data for file, data in found.items() if file in folders}
            folders = [{"type": "directory", "path": folder, "oid": "0" * 40} for folder in sorted(folders - {*files})]
            return 200, {}, folders + [entry(file, data) for file, data in found.items()]
        if path and path[0] == "preupload":
            asked = json.loads(body)["files"]
            modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None} for file in asked
            ]
            return 200, {}, {"files": modes}
        if path and path[0] == "commit":
            files = dict(files)
            for operation in map(json.loads, body.splitlines()):
                value = operation["value"]
                if operation["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif operation["key"] == "deletedFile":
                    del files[value["path"]]
            self.commits[name].append(files)
            oid = self.commit(len(self.commits[name]) - 1)
            return 200, {}, {"commitUrl": f"{self.address}/{name}/commit/{oid}", "commitOid": oid}
        siblings = [{"rfilename": file} for file in files]
        return 200, {}, {"id": name, "modelId": name, "sha": self.commit(number), "siblings": siblings, "tags": []}


def entry(file, data):
    """A file of a repository, as the hub lists it."""
    return {"type": "file", "path": file, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
