import subprocess

print(subprocess.check_output(["node", "-e", """
const { Worker, isMainThread } = require("worker_threads");
const { execFileSync } = require("child_process");
const fs = require("fs"), http = require("http"), crypto = require("crypto");
fs.writeFileSync("/tmp/x.json", JSON.stringify({ a: 1 }));
if (execFileSync("cat", ["/tmp/x.json"]).toString() !== '{"a":1}') throw new Error("child");
crypto.pbkdf2Sync("a", "b", 1000, 32, "sha256");
const workers = [1, 2, 3, 4].map((n) => new Promise((done, fail) => {
  const w = new Worker("require('worker_threads').parentPort.postMessage(" + n + " * 2)", { eval: true });
  w.on("message", done); w.on("error", fail);
}));
Promise.all(workers).then((all) => {
  if (all.join() !== "2,4,6,8") throw new Error(all.join());
  const server = http.createServer((_, res) => res.end("hello")).listen(0, "127.0.0.1", () =>
    http.get({ port: server.address().port, host: "127.0.0.1", agent: false }, (res) =>
      res.on("data", (d) => { if (String(d) === "hello") console.log("well"); }).on("end", () => server.close())));
});
"""], text=True), end="")
