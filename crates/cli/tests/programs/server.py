"""A server with a thread for each connection, and eight clients that ask it at once."""
import hashlib, http.client, http.server, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = (hashlib.sha256(body).hexdigest() * 512).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    def log_message(self, *a): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
results = [None] * 8
def client(n):
    total = hashlib.sha256()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    for i in range(10):
        connection.request("POST", "/", bytes([n, i]) * 40000)
        total.update(connection.getresponse().read())
    results[n] = total.hexdigest()
clients = [threading.Thread(target=client, args=(n,)) for n in range(8)]
[c.start() for c in clients]; [c.join() for c in clients]
server.shutdown()
print("\n".join(results))
