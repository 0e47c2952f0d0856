// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Command dnsconfigurer decides, explains and serves the DNS configuration of Kubernetes pods.
//
// Results are written to standard output. Errors are written to standard error: for each error a line
// "dnsconfigurer: WHAT FAILED", for some followed by a line "hint: WHAT TO DO". A server with the log
// format json writes each error as a line of its log.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/cli"
	"github.com/dnsconfigurer/dnsconfigurer/internal/daemon"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// The exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // the input has errors, or the command failed
	exitUsage  = 2 // the command line has errors
)

// errReported is returned by a command that has already written why it fails.
var errReported = errors.New("reported")

// exitError returns the error of a command. If err is nil and passed is false, it returns errReported:
// the command has already written the reason.
func exitError(passed bool, err error) error {
	if err == nil && !passed {
		return errReported
	}
	return err
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand(args)
	usage.RequireCompletionShell(root, args)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(cli.ResultWriter{Writer: stdout})
	root.SetErr(stderr)
	root.SetFlagErrorFunc(usage.FlagError)

	var helpErr error // set by the help function, which cannot return an error
	usage.InstallHelp(root, &helpErr)
	cmd, err := root.ExecuteContextC(ctx)
	err = cmp.Or(err, helpErr)
	usageErr, isUsage := errors.AsType[usage.Error](err)
	if isUsage {
		err = usageErr
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case daemon.LogFailure(stderr, err):
		return exitFailed
	case isUsage:
		cli.WriteError(stderr, usageErr.Err)
		fmt.Fprintf(stderr, "hint: see %s --help\n", cmd.CommandPath())
		return exitUsage
	}
	if failure, ok := errors.AsType[daemon.Failure](err); ok {
		err = failure.Err
	}
	cli.WriteError(stderr, err)
	return exitFailed
}

// groupOfCommands are commands that help lists together.
type groupOfCommands struct {
	title    string // "": the last ones, without a title
	commands map[string]func() *cobra.Command
}

// rootCommand returns the command with its subcommands. args is the command line: if it begins with the name
// of a subcommand, the others are not made.
func rootCommand(args []string) *cobra.Command {
	printVersion := false
	root := &cobra.Command{
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName(os.Args[0])},
		Use:           "dnsconfigurer",
		Short:         "Decide, explain and serve the DNS configuration of Kubernetes pods",
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage.UnknownCommand(cmd, args[0])
			}
			if printVersion {
				return writeVersion(cmd.OutOrStdout(), "text")
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&printVersion, "version", "v", false, "version for dnsconfigurer")
	root.SetHelpCommand(usage.HelpCommand())
	usage.WrapFlags(root)
	groups := []groupOfCommands{
		{"Look at manifests and clusters:", map[string]func() *cobra.Command{
			"render": renderCommand, "validate": validateCommand, "lookup": lookupCommand, "doctor": doctorCommand,
			"advise": adviseCommand, "rules": rulesCommand, "policies": policiesCommand, "config": configCommand,
			"import-corefile": importCorefileCommand, "conformance": conformanceCommand,
		}},
		{"Look at this node, and change it:", map[string]func() *cobra.Command{
			"install": installCommand, "uninstall": uninstallCommand, "bypass": bypassCommand, "status": statusCommand,
			"pods": podsCommand, "refresh": refreshCommand, "restore": restoreCommand,
		}},
		{"Serve:", map[string]func() *cobra.Command{
			"agent": agentCommand, "nri": nriCommand, "shim": func() *cobra.Command { return shimCommand(args) },
			"dns": dnsCommand, "nodecache": nodeCacheCommand, "webhook": webhookCommand,
		}},
		{"", map[string]func() *cobra.Command{"version": versionCommand}},
	}
	// Only the command that runs is built, if there is one.
	isNamed := slices.ContainsFunc(groups, func(g groupOfCommands) bool { return len(args) > 0 && g.commands[args[0]] != nil })
	for _, g := range groups {
		if g.title != "" {
			root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		}
		for name, newCommand := range g.commands {
			if !isNamed || args[0] == name {
				command := newCommand()
				command.GroupID = g.title
				root.AddCommand(command)
			}
		}
	}
	// A misspelled command is reported before its flags, which the root does not know.
	root.DisableFlagParsing = !isNamed && len(args) > 0 && !strings.HasPrefix(args[0], "-")
	usage.CompleteFlags(root)
	return root
}

// displayName returns the name of the program in usage texts. program is the path by which it was run.
func displayName(program string) string {
	if strings.HasPrefix(filepath.Base(program), "kubectl-dnsconfig") { // on Windows it ends in .exe
		return "kubectl dnsconfig"
	}
	return "dnsconfigurer"
}

// interruptible lets cmd end on an interrupt even while a read blocks. cmd must not change files: its
// goroutine is abandoned.
func interruptible(cmd *cobra.Command) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return daemon.Interruptible(cmd.Context(), func() error { return run(cmd, args) })
	}
	return cmd
}

func versionCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  dnsconfigurer version -o json",
		Args:    usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeVersion(cmd.OutOrStdout(), format)
		},
	}
	usage.FormatFlag(cmd.Flags(), &format, "`FORMAT`: text or json", "text", "json")
	return cmd
}

func writeVersion(out io.Writer, format string) error {
	v := v1alpha1.VersionResult{Version: version(), GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if format == "json" {
		return json.NewEncoder(out).Encode(v)
	}
	_, err := fmt.Fprint(out, v)
	return err
}

// version returns the version of the module, or "(devel)" and the revision if it was built without
// a version.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "(devel)" {
			v += " " + s.Value
		}
	}
	return v
}
