// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"strings"

	"github.com/spf13/cobra"
)

// NoArguments accepts no arguments. An argument of a command with subcommands is an unknown command.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.HasAvailableSubCommands():
		return UnknownCommand(cmd, args[0])
	}
	return Errorf("unexpected argument %q", args[0])
}

// OneArgument accepts one argument, which is called name in errors.
func OneArgument(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return Errorf("want one %s, got %d arguments", name, len(args))
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
