import asyncio
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args):
        pass


async def main():
    child = await asyncio.create_subprocess_shell("echo child; exit 3", stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    assert (out, child.returncode) == (b"child\n", 3)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = "http://localhost:%d/" % server.server_address[1]
    pages = await asyncio.gather(*(asyncio.to_thread(lambda: urllib.request.urlopen(url).read()) for _ in range(20)))
    assert pages == [b"hello"] * 20
    server.shutdown()


asyncio.run(main())
print("well")
