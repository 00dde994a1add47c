// Command cloche-shim makes containers for cloche, which starts it. It runs as
// the init of user, mount and pid namespaces of its own and ends with its
// server, whose end of the socket it reads from descriptor 3.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"cloche.dev/cloche/runtime/cgroup"
	"cloche.dev/cloche/runtime/container"
	"cloche.dev/cloche/runtime/sandbox"
	"cloche.dev/cloche/runtime/shim"
)

// dir is where the shim keeps its state: a tmpfs over /run, in its own mount
// namespace, so that it is gone with it.
const dir = "/run"

func main() {
	container.Init()
	unix.Umask(0o022) // whatever the server's is: sandboxes, another user, read what is made
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cloche-shim:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || args[0] != "serve" || os.Getpid() != 1 {
		return fmt.Errorf("cloche starts this program; run cloche instead")
	}
	var o container.Options
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.StringVar(&o.Cgroup, "cgroup", "", "control `group` for the sandboxes")
	flags.BoolVar(&o.Limits.Memory, "limit-memory", false, "memory can be limited there")
	flags.BoolVar(&o.Limits.CPU, "limit-cpu", false, "processor time can be limited there")
	flags.BoolVar(&o.Limits.PIDs, "limit-pids", false, "processes can be limited there")
	flags.BoolVar(&o.Cold, "cold", false, "sandboxes start from no template")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	o.Dir = dir
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	// Nothing that the shim starts may read its server's socket.
	unix.CloseOnExec(3)
	err := shim.Serve(context.Background(), os.NewFile(3, "server"), o.Log, func() (sandbox.Runner, error) {
		if err := ownMounts(); err != nil {
			return nil, err
		}
		return container.New(o)
	})
	return errors.Join(err, removeGroup(o.Cgroup))
}

// removeGroup removes the sandboxes' control group, in case that nobody is left
// who would. In version 2 this process is in it, and it stays for the next
// server.
func removeGroup(path string) error {
	g := cgroup.At(path)
	if g.V2 {
		return nil
	}
	g.Kill() // what could not be ended before
	return g.Remove(time.Second)
}

// ownMounts parts this mount namespace from the host's and gives it a /proc of
// its pid namespace and a place for the shim's state.
func ownMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("shim", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0711"); err != nil {
		return fmt.Errorf("mount the shim's directory: %w", err)
	}
	return nil
}
