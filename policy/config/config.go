// Package config is the administrator's one file, config.toml: what may be set,
// what holds if it is not, and which mistakes are told with their place in the
// file. A key is described once, in the table of keys.go; reading, checking,
// near misses, config.example.toml and the printed policy all come from there.
package config

import "time"

// A Config is a whole policy. It is a value: whoever holds one never changes
// what its slices hold, so that it may be read from several goroutines.
type Config struct {
	Server  Server
	Log     Log
	Calls   Calls
	Sandbox Sandbox
	Pool    Pool
}

// Server is the table [server].
type Server struct {
	// StopGrace is how long calls may go on when the server is told to stop.
	StopGrace Duration
}

// Log is the table [log].
type Log struct {
	Level  string // debug, info, warn or error, as slog.Level reads it
	Format string // text or json
}

// Calls is the table [calls].
type Calls struct {
	Timeout    Duration // of a call that asks for none; never above MaxTimeout
	MaxTimeout Duration // the largest that a call may ask for
	MaxCode    Size     // of the code of one call
	Output     Size     // shown of stdout and of stderr, each
	Waiting    int      // calls that may wait in one conversation
}

// Sandbox is the table [sandbox]. Work, Tmp and Shm together are less than
// Memory.
type Sandbox struct {
	Image   string
	Memory  Size
	CPUs    float64
	PIDs    int64
	Work    Size // of /work
	Tmp     Size // of /tmp
	Shm     Size // of /dev/shm
	Idle    Duration
	Preload Preload
	Host    Host
}

// Host is the table [sandbox.host], about the image "host".
type Host struct {
	// Hide holds path.Match patterns relative to /usr, each a valid fs path.
	Hide []string
}

// Pool is the table [pool].
type Pool struct {
	Warm       int     // sandboxes kept ready
	Max        int     // conversations that may have a sandbox at a time
	Memory     Size    // of all calls that run; 0 stands for auto
	Processors float64 // for all calls that run; 0 stands for auto
}

// Default returns the policy that holds when nothing is set.
func Default() Config {
	return Config{
		Server: Server{StopGrace: Duration(30 * time.Second)},
		Log:    Log{Level: "info", Format: "text"},
		Calls: Calls{
			Timeout:    Duration(time.Minute),
			MaxTimeout: Duration(time.Hour),
			MaxCode:    4 * MB,
			Output:     12 * KB,
			Waiting:    16,
		},
		Sandbox: Sandbox{
			Image:   "host",
			Memory:  1 * GB,
			CPUs:    1,
			PIDs:    1024,
			Work:    256 * MB,
			Tmp:     512 * MB,
			Shm:     64 * MB,
			Idle:    Duration(2 * time.Minute),
			Preload: Preload{Auto: true},
		},
		Pool: Pool{Warm: 1, Max: 256},
	}
}
