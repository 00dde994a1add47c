package shim

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"cloche.dev/cloche/policy/fault"
	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/sandbox"
)

// pair returns a conn and the raw other end of its socket.
func pair(tb testing.TB) (*conn, *net.UnixConn) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	ours, err := newConn(os.NewFile(uintptr(fds[0]), "ours"))
	if err != nil {
		tb.Fatal(err)
	}
	theirs, err := newConn(os.NewFile(uintptr(fds[1]), "theirs"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ours.unix.Close()
		theirs.unix.Close()
	})
	return ours, theirs.unix
}

func TestErrorsCrossTheWire(t *testing.T) {
	cause := errors.New("path /secret")
	for _, tt := range []struct {
		name string
		err  error
		kind fault.Kind
		text string // what an agent may read
		log  string
	}{
		{"nil", nil, "", "", ""},
		{"plain", cause, fault.Internal, "", "shim: path /secret"},
		{"fault", fault.New(fault.Busy, "100%% full"), fault.Busy, "100% full", "100% full: 100% full"},
		{"fault with a cause", fault.Wrap(fault.NotFound, cause, "no image"), fault.NotFound, "no image", "no image: no image: path /secret"},
		{"wrapped fault", errors.Join(fault.New(fault.Gone, "gone"), cause), fault.Gone, "gone", "gone: gone\npath /secret"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := toWire(tt.err).err()
			text, log := "", ""
			if f, ok := errors.AsType[*fault.Error](got); ok {
				text = f.Text()
			}
			if got != nil {
				log = got.Error()
			}
			if fault.KindOf(got) != tt.kind || text != tt.text || log != tt.log {
				t.Errorf("%v arrives as kind %q, text %q, log %q; want %q, %q, %q", tt.err, fault.KindOf(got), text, log, tt.kind, tt.text, tt.log)
			}
		})
	}
}

func TestSendAndReceive(t *testing.T) {
	a, raw := pair(t)
	b := &conn{unix: raw}
	want := request{ID: 7, Op: opStart, Sandbox: 8, Spec: sandbox.Spec{Image: "host", Hide: []string{"a"}, Limits: sandbox.Limits{CPUs: 0.5}}}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := a.send(want, file); err != nil {
		t.Fatalf("send = %v", err)
	}
	var got request
	files, err := b.receive(&got)
	if err != nil || len(files) != 1 {
		t.Fatalf("receive = %d files, %v, want 1", len(files), err)
	}
	defer files[0].Close()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-sent +received):\n%s", diff)
	}
	flags, err := unix.FcntlInt(files[0].Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags of the descriptor = %#x, %v, want close-on-exec", flags, err)
	}
	a.unix.Close()
	if _, err := b.receive(&got); !errors.Is(err, io.EOF) {
		t.Errorf("receive from one that is gone = %v, want EOF", err)
	}
}

// TestPacketSize sends a message of exactly the size that may be, and one past.
func TestPacketSize(t *testing.T) {
	a, raw := pair(t)
	b := &conn{unix: raw}
	const frame = len(`""`)
	if err := a.send(strings.Repeat("x", maxPacket-frame)); err != nil {
		t.Fatalf("send of %d bytes = %v", maxPacket, err)
	}
	var got string
	if _, err := b.receive(&got); err != nil || len(got) != maxPacket-frame {
		t.Errorf("receive of %d bytes = %d, %v", maxPacket, len(got), err)
	}
	if err := a.send(strings.Repeat("x", maxPacket-frame+1)); err == nil {
		t.Error("send of one byte more = nil, want an error")
	}
	if _, err := raw.Write(make([]byte, maxPacket+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.receive(&got); err == nil {
		t.Error("receive of one byte more = nil, want an error")
	}
}

// openFiles counts this process's descriptors.
func openFiles(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// TestTooManyDescriptors: what comes with a message that is refused is closed.
func TestTooManyDescriptors(t *testing.T) {
	a, raw := pair(t)
	before := openFiles(t)
	for _, tt := range []struct {
		name string
		data string
		fds  int
	}{{"more than may be", `{}`, 5}, {"very many", `{}`, 200}, {"with what is no JSON", `{`, 3}, {"with another type", `[]`, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := raw.WriteMsgUnix([]byte(tt.data), unix.UnixRights(make([]int, tt.fds)...), nil); err != nil {
				t.Fatal(err)
			}
			if files, err := a.receive(&request{}); err == nil || files != nil {
				t.Errorf("receive = %d files, %v, want an error", len(files), err)
			}
			if after := openFiles(t); after != before {
				t.Errorf("%d descriptors are open, before it were %d", after, before)
			}
		})
	}
}

// FuzzReceive: neither end trusts the other with more than its own requests.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"id":1,"op":"start","sandbox":2,"spec":{"image":"host","limits":{"memory_bytes":1000000000,"cpus":1,"pids":10}}}`), uint8(1))
	f.Add([]byte(`{"id":0,"hello":{"version":1}}`), uint8(0))
	f.Add([]byte(`{"id":18446744073709551615,"error":{"kind":"busy","text":"%s%d","cause":"x"},"usage":{"oom_kills":1}}`), uint8(4))
	f.Add([]byte(`{"id":-1,"spec":null,"error":[]}`), uint8(5))
	f.Add([]byte("\x00\xff"), uint8(250))
	a, raw := pair(f)
	b := &conn{unix: raw}
	f.Fuzz(func(t *testing.T, data []byte, fds uint8) {
		if len(data) == 0 || len(data) > maxPacket {
			return // the first is the end of the peer
		}
		fds %= 254 // more than 253 the kernel does not pass (SCM_MAX_FD)
		before := openFiles(t)
		for _, into := range []any{&request{}, &reply{}} {
			var rights []byte
			if fds > 0 {
				rights = unix.UnixRights(make([]int, fds)...) // copies of standard input
			}
			if _, _, err := raw.WriteMsgUnix(data, rights, nil); err != nil {
				t.Fatal(err)
			}
			files, err := a.receive(into)
			if err != nil && len(files) > 0 {
				t.Errorf("receive of %q = %d files, %v", data, len(files), err)
			}
			for _, file := range files {
				file.Close()
			}
			if r, ok := into.(*reply); ok && err == nil {
				_ = toWire(r.Error.err()) // as a server would that passes it on
			}
		}
		if after := openFiles(t); after != before {
			t.Errorf("%d descriptors are open, before it were %d", after, before)
		}
		// What was understood is understood by the other side alike.
		var first, second request
		if _, _, err := raw.WriteMsgUnix(data, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := a.receive(&first); err != nil {
			return
		}
		if err := a.send(first); err != nil {
			return // it may grow past the size of a packet
		}
		if _, err := b.receive(&second); err != nil || !cmp.Equal(first, second) {
			t.Errorf("sent again: %+v, %v, want %+v", second, err, first)
		}
	})
}

func TestInstead(t *testing.T) {
	for limits, want := range map[cgroup.Limits][]string{
		{Memory: true, CPU: true, PIDs: true}: nil,
		{Memory: true, CPU: true}:             {"processes"},
		{Memory: true, PIDs: true}:            {"processors"},
		{CPU: true, PIDs: true}:               {"memory"},
		{}:                                    {"memory", "processors"},
	} {
		got := Setup{Limits: limits}.Instead()
		var words []string
		for part := range strings.SplitSeq(got, "; ") {
			if word, _, _ := strings.Cut(part, " "); word != "" {
				words = append(words, word)
			}
		}
		if diff := cmp.Diff(want, words); diff != "" {
			t.Errorf("what stands in beside %+v, %q (-want +got):\n%s", limits, got, diff)
		}
	}
}
