package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"
	"github.com/posener/complete"
	"github.com/willabides/kongplete"

	"cloche.dev/cloche/cmd/cloche/internal/bench"
	"cloche.dev/cloche/cmd/cloche/internal/doctor"
	"cloche.dev/cloche/tools/code"
)

type completionCommand struct {
	Shell string `arg:"" optional:"" enum:"bash,zsh,fish," default:"" help:"bash, zsh or fish; that of $$SHELL if not given."`
}

func (completionCommand) Help() string {
	return `Prints lines for the start-up file of a shell, which then asks cloche itself how a command line may go on.

Exit codes: 0, 1 if the shell is none of these, 2 for a wrong command line.

Examples:
  cloche completion bash >> ~/.bashrc
  cloche completion zsh >> ~/.zshrc
  cloche completion fish > ~/.config/fish/completions/cloche.fish`
}

// scripts are what each shell is told; %[1]s is this program. Where it offers
// nothing, the shell offers files.
var scripts = map[string]string{
	"bash": `complete -o default -C %[1]s cloche
`,
	"zsh": `autoload -U +X bashcompinit && bashcompinit
complete -o default -C %[1]s cloche
`,
	"fish": `function __complete_cloche
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    %[1]s
end
complete -c cloche -a "(__complete_cloche)"
`,
}

// Run prints the lines.
func (c *completionCommand) Run(s streams) error {
	shell := c.Shell
	if shell == "" {
		shell = filepath.Base(os.Getenv("SHELL"))
	}
	script, ok := scripts[shell]
	if !ok {
		return errors.New("SHELL names none of bash, zsh and fish; say which one, as in: cloche completion bash")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, script, doctor.Quoted(self))
	return err
}

// completed answers a shell that asks how a command line may go on, and says
// whether one did.
func completed(parser *kong.Kong, env func(string) string) bool {
	if env("COMP_LINE") == "" {
		return false
	}
	done := false
	kongplete.Complete(parser,
		kongplete.WithPredictors(map[string]complete.Predictor{
			"tool": complete.PredictSet(code.Interpreter(nil).Name, code.Status(code.StatusOptions{}).Name),
			"row":  complete.PredictSet(bench.Names()...),
		}),
		kongplete.WithExitFunc(func(int) { done = true }),
	)
	return done
}
