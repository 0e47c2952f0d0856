// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// RequireCommand is the RunE of a command that only has subcommands.
func RequireCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UnknownCommand(cmd, args[0])
	}
	return Errorf("command missing: want %s", JoinOr(commandNames(cmd)))
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

// JoinOr returns the words as "a, b or c".
func JoinOr(words []string) string {
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

// ChoiceFlag registers a flag with a fixed set of values; the first is the default. short is
// its letter, "" for none.
func ChoiceFlag(flags *pflag.FlagSet, at *string, name, short, text string, values ...string) {
	*at = values[0]
	flags.VarP(choice{at: at, values: values}, name, short, text)
	SetValues(flags, name, values)
}

// choice is the value of a ChoiceFlag or a FormatFlag.
type choice struct {
	at     *string
	values []string
	lines  bool // of JSON
}

func (c choice) Type() string   { return "string" }
func (c choice) String() string { return *c.at }

func (c choice) Set(text string) error {
	if c.lines && text == "jsonl" {
		text = "json"
	}
	if !slices.Contains(c.values, text) {
		return fmt.Errorf("want %s", JoinOr(c.values))
	}
	*c.at = text
	return nil
}

// FormatFlag registers the flag -o of a command that prints JSON Lines, one object per line: jsonl is
// another name of the format json.
func FormatFlag(flags *pflag.FlagSet, at *string, text string, formats ...string) {
	*at = formats[0]
	flags.VarP(choice{at, formats, true}, "output", "o", text)
	SetValues(flags, "output", formats)
}

// ClusterFlags registers the flags of a command that reads a cluster.
func ClusterFlags(flags *pflag.FlagSet, kubeconfig, context *string) {
	flags.StringVar(kubeconfig, "kubeconfig", "",
		"kubeconfig `FILE`; empty: as kubectl, $KUBECONFIG, ~/.kube/config or the pod's service account")
	flags.StringVar(context, "context", "", "`CONTEXT` of the kubeconfig; empty: the current one")
}

// helpWidth is the number of columns of help.
const helpWidth = 100

// WrapFlags wraps the descriptions of flags in the help of root and of its subcommands.
func WrapFlags(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)))
}

// CheckUnset returns an error if one of the flags is set. reason says why the flag has no effect, and
// what to do.
func CheckUnset(cmd *cobra.Command, reason string, flags ...string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return Errorf("--%s has no effect %s", name, reason)
		}
	}
	return nil
}

// valuesAnnotation is the annotation of a flag with the values of SetValues.
const valuesAnnotation = "dnsconfigurer.dev/values"

// SetValues sets the values of a flag that has a fixed set of them, for its errors and completions.
func SetValues(flags *pflag.FlagSet, name string, values []string) {
	if err := flags.SetAnnotation(name, valuesAnnotation, values); err != nil {
		panic(err) // the flag does not exist
	}
}

// CompleteFlags lets shells complete the values of the flags of cmd and of its subcommands that have a
// fixed set of them.
func CompleteFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		values := f.Annotations[valuesAnnotation]
		if values == nil {
			return
		}
		complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // the flag has completions already
		}
	})
	for _, sub := range cmd.Commands() {
		CompleteFlags(sub)
	}
}

// FlagError returns the error of a command line that pflag does not accept.
func FlagError(cmd *cobra.Command, err error) error {
	return Error{DescribeFlagError(cmd, err)}
}

// DescribeFlagError returns an error of pflag without the words of Go's parsers.
func DescribeFlagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag := invalid.GetFlag()
		want, ok := wantedValues[flag.Value.Type()]
		if values := flag.Annotations[valuesAnnotation]; len(values) > 0 {
			want, ok = JoinOr(values), true
		}
		if ok {
			err = fmt.Errorf("--%s: %q: want %s", flag.Name, invalid.GetValue(), want)
		} else if invalid.GetValue() == "" {
			err = fmt.Errorf("--%s: %w", flag.Name, invalid.Unwrap())
		}
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if by := v1alpha1.FlagReplacement(unknown.GetSpecifiedName(), cmd.Flags().Lookup("config") != nil); by != "" {
			return fmt.Errorf("%w: %s", err, by)
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		err = fmt.Errorf("%w%s", err, excerpt.DidYouMean(unknown.GetSpecifiedName(), "--", names))
	}
	return err
}

// wantedValues describe the valid values of a flag, by the type of its value.
var wantedValues = map[string]string{
	"bool":        "true or false",
	"duration":    "a duration such as 30s or 2m",
	"int":         "a whole number",
	"uint16":      "a number from 0 to 65535",
	"uint32":      "a number from 0 to 4294967295",
	"stringSlice": "values separated by commas; quote a value that contains a double quote",
}
