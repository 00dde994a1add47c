package mcp

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cloche.dev/cloche/tools/mcpclient"
)

var versions = []string{mcpclient.Legacy, mcpclient.Modern}

// connect runs the server until the test is over and returns the library's
// client of it.
func connect(t *testing.T, s *Server, version string) *mcpclient.Client {
	t.Helper()
	inRead, inWrite := pipe(t)
	outRead, outWrite := pipe(t)
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Stdio(context.WithoutCancel(t.Context()), inRead, outWrite, patience); err != nil {
			t.Errorf("Stdio = %v", err)
		}
		outWrite.Close()
	})
	c, err := mcpclient.Connect(t.Context(), outRead, inWrite, version)
	if err != nil {
		inWrite.Close()
		running.Wait()
		t.Fatalf("Connect(%s) = %v", version, err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
		running.Wait()
	})
	return c
}

func TestClient(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := newFakes()
			s, _ := newServer(f)
			c := connect(t, s, version)
			if c.ServerName() != "bell" || c.ServerVersion() != "1.2.3" || c.ProtocolVersion() != version {
				t.Errorf("server %s %s speaks %s, want bell 1.2.3 and %s", c.ServerName(), c.ServerVersion(), c.ProtocolVersion(), version)
			}
			if c.PID() != 0 {
				t.Errorf("PID = %d of a server that the client did not start", c.PID())
			}
			list, err := c.Tools(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var names, want []string
			for _, tool := range list {
				names = append(names, tool.Name)
			}
			for _, tool := range f.tools() {
				want = append(want, tool.Name)
			}
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			wantEcho := mcpclient.Tool{
				Name: "echo", Title: "The echo", Description: "Does echo.", ReadOnly: true, Idempotent: true,
				Schema: list[1].Schema,
			}
			if diff := cmp.Diff(wantEcho, list[1]); diff != "" || strings.Index(string(list[1].Schema), `"z"`) > strings.Index(string(list[1].Schema), `"a"`) {
				t.Errorf("echo, with the schema %s (-want +got):\n%s", list[1].Schema, diff)
			}
			r, err := c.Call(t.Context(), "echo", map[string]int{"z": 1}, mcpclient.Meta("cloche/turn", "t1"))
			if err != nil || len(r.Text) != 1 || r.Text[0] != `{"z":1}` || r.IsError || !strings.Contains(string(r.Structured), `"cloche/turn":"t1"`) {
				t.Errorf("echo = %+v, %v", r, err)
			}
			r, err = c.Call(t.Context(), "image", nil)
			if err != nil || len(r.Images) != 1 || string(r.Images[0].Data) != "\x89PNG" || r.Images[0].MediaType != "image/png" || r.Structured != nil {
				t.Errorf("image = %+v, %v", r, err)
			}
			r, err = c.Call(t.Context(), "fault", nil)
			if err != nil || !r.IsError || r.Text[0] != "no room; remove files" {
				t.Errorf("fault = %+v, %v", r, err)
			}
			if _, err := c.Call(t.Context(), "no", nil); err == nil || !strings.Contains(err.Error(), "there is no tool") {
				t.Errorf("call of an unknown tool = %v, want an error", err)
			}
		})
	}
}
