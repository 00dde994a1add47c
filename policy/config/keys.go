package config

import (
	"strings"
	"time"
)

// A table is one [table] of the file.
type table struct {
	name string // in full: "sandbox.host"
	doc  string
	keys []key
}

// A key is all that is known of one key. The rest of the package has no list of
// keys of its own.
type key struct {
	name string
	doc  string
	kind kind
}

// tables has every key there is, in the order in which they are written.
var tables = []table{
	{"server", "The server as a whole.", []key{
		{
			"stop_grace", "How long calls in flight may go on when the server is told to stop.",
			duration(0, 10*time.Minute, func(c *Config) *Duration { return &c.Server.StopGrace }),
		},
	}},
	{"log", "What is written to standard error.", []key{
		{
			"level", "The least important lines that are still written.",
			choice(func(c *Config) *string { return &c.Log.Level }, "debug", "info", "warn", "error"),
		},
		{
			"format", "text for people, json for programs.",
			choice(func(c *Config) *string { return &c.Log.Format }, "text", "json"),
		},
	}},
	{"calls", "Limits of a single call.", []key{
		{
			"timeout", "The time that a call may run if it does not say. Not above max_timeout.",
			duration(100*time.Millisecond, day, func(c *Config) *Duration { return &c.Calls.Timeout }),
		},
		{
			"max_timeout", "The longest time that a call may ask for.",
			duration(time.Second, day, func(c *Config) *Duration { return &c.Calls.MaxTimeout }),
		},
		{
			"max_code", "The longest code that a call may bring.",
			size(1*KB, 32*MB, func(c *Config) *Size { return &c.Calls.MaxCode }),
		},
		{
			"output", "How much is shown of what a call wrote to stdout, and as much again of stderr.",
			size(1*KB, 1*MB, func(c *Config) *Size { return &c.Calls.Output }),
		},
		{
			"waiting", "How many calls of one conversation may wait for their turn; those past it are told to come back.",
			whole(0, 1000, func(c *Config) *int { return &c.Calls.Waiting }),
		},
	}},
	{"sandbox", "What agents' code runs in. Changes hold for sandboxes started from then on.", []key{
		{
			"image", "The root file system: host shows this machine's /usr, read-only.",
			choice(func(c *Config) *string { return &c.Sandbox.Image }, "host"),
		},
		{
			"memory", "The memory of all that runs in a sandbox together; what is in work, tmp and shm counts.",
			size(32*MB, 16*TB, func(c *Config) *Size { return &c.Sandbox.Memory }),
		},
		{
			"cpus", "How many processors' time a sandbox may use.",
			number(0.01, 1024, func(c *Config) *float64 { return &c.Sandbox.CPUs }),
		},
		{
			"pids", "How many processes and threads a sandbox may have.",
			whole(16, 4194304, func(c *Config) *int64 { return &c.Sandbox.PIDs }),
		},
		{
			"work", "What fits into /work. Work, tmp and shm together must be less than memory.",
			size(1*MB, 16*TB, func(c *Config) *Size { return &c.Sandbox.Work }),
		},
		{
			"tmp", "What fits into /tmp.",
			size(1*MB, 16*TB, func(c *Config) *Size { return &c.Sandbox.Tmp }),
		},
		{
			"shm", "What fits into /dev/shm.",
			size(1*MB, 16*TB, func(c *Config) *Size { return &c.Sandbox.Shm }),
		},
		{
			"idle", "How long a conversation keeps its sandbox without a call.",
			duration(time.Second, day, func(c *Config) *Duration { return &c.Sandbox.Idle }),
		},
		{
			"preload", `Python modules that are imported before a call begins. "auto" means those of ` +
				strings.Join(AutoModules(), ", ") + " that are installed; [] means none.",
			preload(func(c *Config) *Preload { return &c.Sandbox.Preload }),
		},
	}},
	{"sandbox.host", `The image "host".`, []key{
		{
			"hide", `Names or patterns below /usr that sandboxes do not get to see, such as "share/doc" or "lib/secret*".`,
			patterns(func(c *Config) *[]string { return &c.Sandbox.Host.Hide }),
		},
	}},
	{"pool", "All sandboxes together, and those that are started before anybody asks.", []key{
		{
			"warm", "How many are kept ready.",
			whole(0, 64, func(c *Config) *int { return &c.Pool.Warm }),
		},
		{
			"max", "How many conversations may have one at a time. Past that the one longest idle is ended; where all are in use, a call waits a few seconds for one.",
			whole(1, 4096, func(c *Config) *int { return &c.Pool.Max }),
		},
		{
			"memory", "For all calls that run at a time, each of which counts sandbox.memory; a sandbox in which none runs counts 16 MiB. " +
				"Calls for which there is no room wait a few seconds, in turns, and then are told to come back. One always may run. " +
				"auto is three quarters of what this host, or the control group of the server, had left at the start of the server. " +
				"Whatever is set here, fewer calls run while others have taken the host's memory.",
			orAuto(size(32*MB, 16*TB, poolMemory), poolMemory),
		},
		{
			"processors", "The same for processors, of which each call counts sandbox.cpus. " +
				"Calls share the time of processors, and most wait for something most of the time, so that somewhat more than there are is right: " +
				"auto is four for each. Set as many as there are where no call is to slow down another.",
			orAuto(number(0.01, 4096, poolProcessors), poolProcessors),
		},
	}},
}

const day = 24 * time.Hour

func poolMemory(c *Config) *Size        { return &c.Pool.Memory }
func poolProcessors(c *Config) *float64 { return &c.Pool.Processors }

// A rule is about several keys. It is checked when each of them is right by
// itself.
type rule struct {
	keys []string // in full; the first one that the file sets has the problem
	// broken returns what must be, "" if it is.
	broken func(c *Config) string
}

var rules = []rule{
	{
		[]string{"calls.timeout", "calls.max_timeout"},
		func(c *Config) string {
			if c.Calls.Timeout <= c.Calls.MaxTimeout {
				return ""
			}
			return quote(c.Calls.Timeout.String()) + " for calls.timeout is above calls.max_timeout, which is " +
				quote(c.Calls.MaxTimeout.String()) + "; lower the one or raise the other"
		},
	},
	{
		[]string{"sandbox.memory", "sandbox.work", "sandbox.tmp", "sandbox.shm"},
		func(c *Config) string {
			s := &c.Sandbox
			// The range of each leaves room for the sum.
			sum := s.Work + s.Tmp + s.Shm
			if sum < s.Memory {
				return ""
			}
			return "sandbox.work, tmp and shm are " + quote(sum.String()) + " together, which must be less than sandbox.memory, " +
				quote(s.Memory.String()) + "; raise memory or lower them"
		},
	},
	{
		[]string{"sandbox.memory", "pool.memory"},
		func(c *Config) string {
			if c.Pool.Memory == 0 || c.Sandbox.Memory <= c.Pool.Memory {
				return ""
			}
			return quote(c.Sandbox.Memory.String()) + " for sandbox.memory is above pool.memory, which is " +
				quote(c.Pool.Memory.String()) + ", so that no call could run; lower the one or raise the other"
		},
	},
}
