package main

import (
	"fmt"
	"os"
	"strings"

	"cloche.dev/cloche/examples/data"
	"cloche.dev/cloche/tools/headline"
)

// weather is the analysis of step 3; the data stands in the variable CSV.
const weather = `import csv, io, collections
rows = list(csv.DictReader(io.StringIO(CSV)))
years = collections.defaultdict(list)
for r in rows:
    years[r["date"][:4]].append(r)
print(f"{len(rows)} days in {len(years)} years")
print("year  rainy days  rain (mm)  warmest day")
for year, days in sorted(years.items()):
    hot = max(days, key=lambda r: float(r["temp_max"]))
    print(year, f'{sum(r["weather"] == "rain" for r in days):9d}',
          f'{sum(float(r["precipitation"]) for r in days):10.0f}',
          f'   {hot["date"]} ({hot["temp_max"]} °C)')`

func (d *demo) data() error {
	d.title("3. Real data")
	d.say("%s: daily weather, %d kB, public (its source is named in examples/data/README.md). The agent sends it as the string CSV, with this code:",
		data.SeattleWeatherName, len(data.SeattleWeather)/1000)
	d.show(">", weather)
	text, report, _, err := d.call("CSV = '''"+data.SeattleWeather+"'''\n"+weather, 0)
	if err != nil {
		return err
	}
	d.show("|", text)
	if !exitZero(report) || !strings.HasPrefix(report.Stdout, "1461 days in 4 years") {
		return fmt.Errorf("the analysis did not come out as it should")
	}
	return nil
}

// outside tries to reach the network. 192.0.2.1 belongs to nobody (RFC 5737).
const outside = `import os, socket
print("interfaces:", os.listdir("/sys/class/net") if os.path.exists("/sys/class/net") else [i[1] for i in socket.if_nameindex()])
for what in (lambda: socket.create_connection(("192.0.2.1", 443), 3), lambda: socket.getaddrinfo("example.com", 443)):
    try:
        what(); print("REACHED")
    except OSError as e:
        print("refused:", e)`

// inside looks for the host.
const inside = `import os
print("user", os.getuid(), "on", os.uname().nodename, "- processes:", sum(n.isdigit() for n in os.listdir("/proc")))
for path in ("/home", "/root", "/etc/shadow", "/var/lib/dpkg", "/run/docker.sock"):
    try:
        print(path, os.listdir(path) if os.path.isdir(path) else open(path).read()[:20])
    except OSError as e:
        print(path, "-", e.strerror)
try:
    open("/usr/bin/python3", "ab")
except OSError as e:
    print("writing to /usr -", e.strerror)`

func (d *demo) walls() error {
	d.title("4. What the code cannot do")
	d.say("There is no network in the sandbox but its own loopback:")
	err := d.run(outside, 0, func(r headline.Structured) bool {
		return exitZero(r) && strings.Contains(r.Stdout, "interfaces: ['lo']") && !strings.Contains(r.Stdout, "REACHED") && strings.Count(r.Stdout, "refused:") == 2
	})
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	d.say("And nothing of this host (%q), its users, files or processes:", host)
	return d.run(inside, 0, func(r headline.Structured) bool {
		return exitZero(r) && strings.Contains(r.Stdout, "user 1000 on sandbox - processes: 2\n") && (host == "sandbox" || !strings.Contains(r.Stdout, host)) &&
			strings.Contains(r.Stdout, "/home []\n/root []\n/etc/shadow - No such file") && strings.Contains(r.Stdout, "writing to /usr - ")
	})
}

func (d *demo) limits() error {
	d.title("5. What goes wrong gets one clear answer")
	d.say("An endless loop, with one second to run:")
	if err := d.run("while True:\n    pass", 1, func(r headline.Structured) bool { return r.Exit.Reason == "timeout" }); err != nil {
		return err
	}
	d.say("A mistake, with the line it is in:")
	err := d.run("rain = [1, 2, 3]\nprint(rain[3])", 0, func(r headline.Structured) bool {
		return r.Exit.Code != nil && *r.Exit.Code == 1 && strings.Contains(r.Stderr, `line 2, in <module>`)
	})
	if err != nil {
		return err
	}
	d.say("And the next call works as if nothing had been:")
	return d.run("'still here'", 0, exitZero)
}
