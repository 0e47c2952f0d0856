// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// RequireCommand is the RunE of a command that only has subcommands.
func RequireCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UnknownCommand(cmd, args[0])
	}
	return Errorf("command missing: want %s", joinOr(commandNames(cmd)))
}

// RequireCompletionShell makes cobra's command completion require one of its subcommands, the shells,
// and no more, as others do. args is the command line.
func RequireCompletionShell(root *cobra.Command, args []string) {
	root.InitDefaultCompletionCmd(args...)
	if c, _, err := root.Find([]string{"completion"}); err == nil && c != root {
		c.Args, c.RunE = cobra.ArbitraryArgs, RequireCommand
		for _, shell := range c.Commands() {
			shell.Args = NoArguments
		}
	}
}

// UnknownCommand returns the error about a subcommand that parent does not have, or that comes
// after --.
func UnknownCommand(parent *cobra.Command, name string) error {
	if slices.Contains(commandNames(parent), name) {
		return Errorf("command %q after --: leave -- out", name)
	}
	return Errorf("unknown command %q%s", name, excerpt.DidYouMean(name, "", commandNames(parent)))
}

// commandNames returns the names of the subcommands that help lists.
func commandNames(parent *cobra.Command) (names []string) {
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// joinOr returns the words as "a, b or c".
func joinOr(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// InstallHelp installs the help function of root. For an unknown command, cobra would print the help of
// its parent. The function sets *problem instead, because a help function cannot return an error.
func InstallHelp(root *cobra.Command, problem *error) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if names := cmd.Flags().Args(); len(names) > 0 && cmd.HasAvailableSubCommands() {
			*problem = UnknownCommand(cmd, names[0])
			return
		}
		cmd.Example = strings.ReplaceAll(cmd.Example, root.Name()+" ", root.DisplayName()+" ")
		help(cmd, args)
	})
}

// HelpCommand returns the command help. That of cobra prints the help of the program for a
// command that does not exist.
func HelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			parent, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return commandNames(parent), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return Error{err}
			}
			if len(rest) > 0 {
				return UnknownCommand(found, rest[0])
			}
			return found.Help()
		},
	}
}

// NoArguments accepts no arguments.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// OneArgument accepts one argument, which is called name in errors.
func OneArgument(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Errorf("want one %s, got %d arguments", name, len(args))
		}
		if args[0] == "" {
			return Errorf("%s is empty", name)
		}
		return nil
	}
}

// AtMostOnePod accepts no argument or one NAMESPACE/NAME.
func AtMostOnePod(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return Errorf("want one NAMESPACE/NAME, got %d arguments", len(args))
	}
	for _, a := range args {
		if namespace, name, found := strings.Cut(a, "/"); !found || namespace == "" || name == "" {
			return Errorf("%q is not NAMESPACE/NAME", a)
		}
	}
	return nil
}

// Error is an error in the command line. Err may join several.
type Error struct{ Err error }

func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e Error) Unwrap() error { return e.Err }

// Errorf is [fmt.Errorf] for an Error.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }
