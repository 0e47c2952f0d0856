// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/internal/spelling"
)

// usageError is an error in the command line.
type usageError struct{ error }

// noArguments accepts no arguments.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", args[0])}
	}
	return nil
}

// oneArgument accepts one argument, which is called name in errors.
func oneArgument(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageError{fmt.Errorf("want one %s, got %d arguments", name, len(args))}
		}
		return nil
	}
}

// requireCommand is the RunE of a command that only has subcommands.
func requireCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return usageError{fmt.Errorf("command missing: want %s", joinOr(commandNames(cmd)))}
}

// unknownCommand returns the error about a subcommand that parent does not have.
func unknownCommand(parent *cobra.Command, name string) error {
	return usageError{fmt.Errorf("unknown command %q%s", name, didYouMean(name, "", commandNames(parent)))}
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

// didYouMean returns a suggestion for a misspelled word. prefix is printed before the suggested
// one. "": there is none.
func didYouMean(word, prefix string, candidates []string) string {
	if closest, ok := spelling.Closest(word, candidates); ok {
		return ": did you mean " + prefix + closest + "?"
	}
	return ""
}

// joinOr returns the words as "a, b or c".
func joinOr(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// helpCommand returns the command help. That of cobra prints the help of the program for a
// command that does not exist.
func helpCommand() *cobra.Command {
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
				return usageError{err}
			}
			if len(rest) > 0 {
				return unknownCommand(found, rest[0])
			}
			return found.Help()
		},
	}
}

// flagUsageError returns the error of a command line that pflag does not accept.
func flagUsageError(cmd *cobra.Command, err error) error {
	return usageError{describeFlagError(cmd, err)}
}

// describeFlagError returns an error of pflag without the words of Go's parsers.
func describeFlagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		if want, ok := wantedValues[flag.Value.Type()]; ok {
			err = fmt.Errorf("--%s: %q: want %s", flag.Name, invalid.GetValue(), want)
		}
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		err = fmt.Errorf("%w%s", err, didYouMean(unknown.GetSpecifiedName(), "--", names))
	}
	return err
}

// wantedValues describe the valid values of a flag, by the type of its value.
var wantedValues = map[string]string{
	"bool":        "true or false",
	"uint16":      "a number from 0 to 65535",
	"uint32":      "a number from 0 to 4294967295",
	"stringSlice": "values separated by commas; quote a value that contains a double quote",
}
