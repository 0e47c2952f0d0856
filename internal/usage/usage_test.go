// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		accept cobra.PositionalArgs
		args   []string
		want   string // "": accepted
	}{
		{usage.NoArguments, nil, ""},
		{usage.NoArguments, []string{"a"}, `unexpected argument "a"`},
		{usage.OneArgument("FILE"), []string{"a"}, ""},
		{usage.OneArgument("FILE"), []string{"a", "b"}, "want one FILE, got 2 arguments"},
		{usage.OneArgument("FILE"), []string{""}, "FILE is empty"},
		{usage.AtMostOnePod, nil, ""},
		{usage.AtMostOnePod, []string{"shop/web"}, ""},
		{usage.AtMostOnePod, []string{"web"}, `"web" is not NAMESPACE/NAME`},
		{usage.AtMostOnePod, []string{"/web"}, `"/web" is not NAMESPACE/NAME`},
		{usage.AtMostOnePod, []string{"a/b", "c/d"}, "want one NAMESPACE/NAME, got 2 arguments"},
	} {
		expect(t, fmt.Sprint(tt.args), tt.accept(&cobra.Command{}, tt.args), tt.want)
	}
}

// expect compares the text of an error, which must be a usage.Error.
func expect(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	if _, ok := errors.AsType[usage.Error](err); !ok || err.Error() != want {
		t.Errorf("%s: %v, want a usage.Error %q", name, err, want)
	}
}

func TestCheckUnset(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, ""},
		{[]string{"--other"}, ""},
		{[]string{"--watch=false"}, "--watch has no effect today: leave it out"},
	} {
		cmd := &cobra.Command{RunE: func(cmd *cobra.Command, _ []string) error {
			return usage.CheckUnset(cmd, "today: leave it out", "recursive", "watch")
		}, SilenceErrors: true, SilenceUsage: true}
		for _, name := range []string{"recursive", "watch", "other"} {
			cmd.Flags().Bool(name, false, "")
		}
		cmd.SetArgs(tt.args)
		expect(t, fmt.Sprint(tt.args), cmd.Execute(), tt.want)
	}
}

// TestExecute runs a program with wrong command lines.
func TestExecute(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"sub"}, "command missing: want one or two"},
		{[]string{"sub", "oen"}, `unknown command "oen": did you mean one?`},
		{[]string{"sub", "one", "--fromat", "x"}, "unknown flag: --fromat: did you mean --format?"},
		{[]string{"sub", "one", "--watch=x"}, `--watch: "x": want true or false`},
		{[]string{"help", "sub", "three"}, `unknown command "three"`},
		{[]string{"sbu", "--help"}, `unknown command "sbu": did you mean sub?`},
		{[]string{"--help", "sbu"}, `unknown command "sbu": did you mean sub?`},
		{[]string{"sub", "oen", "-h"}, `unknown command "oen": did you mean one?`},
		{[]string{"sub", "--help", "oen"}, `unknown command "oen": did you mean one?`},
		{[]string{"sub", "--", "one"}, `command "one" after --: leave -- out`},
		{[]string{"sub", "one", "x", "--help"}, ""},
		{[]string{"sub", "--help"}, ""},
		{[]string{"sub", "one", "-o", "jsonl"}, ""},
		{[]string{"sub", "one", "-o", "xml"}, `--output: "xml": want text or json`},
		{[]string{"sub", "one", "--libc", "musl"}, ""},
		{[]string{"sub", "one", "--libc", "jsonl"}, `--libc: "jsonl": want glibc, musl or go`},
	} {
		format, libc := "", ""
		one := &cobra.Command{Use: "one", RunE: func(*cobra.Command, []string) error {
			if want := []string{"text", "json", "glibc", "musl"}; !slices.Contains(want, format) || !slices.Contains(want, libc) {
				return fmt.Errorf("format %q, libc %q", format, libc)
			}
			return nil
		}}
		one.Flags().String("format", "", "")
		one.Flags().Bool("watch", false, "")
		usage.FormatFlag(one.Flags(), &format, "`FORMAT`", "text", "json")
		usage.ChoiceFlag(one.Flags(), &libc, "libc", "", "`LIBRARY`", "glibc", "musl", "go")
		sub := &cobra.Command{Use: "sub", Args: cobra.ArbitraryArgs, RunE: usage.RequireCommand}
		sub.AddCommand(one, &cobra.Command{Use: "two", RunE: func(*cobra.Command, []string) error { return nil }})
		root := &cobra.Command{Use: "program", Args: cobra.ArbitraryArgs, RunE: usage.RequireCommand,
			SilenceErrors: true, SilenceUsage: true}
		root.SetHelpCommand(usage.HelpCommand())
		root.SetFlagErrorFunc(usage.FlagError)
		root.AddCommand(sub)
		root.SetArgs(tt.args)
		root.SetOut(io.Discard)
		var unknown error
		usage.InstallHelp(root, &unknown)
		expect(t, fmt.Sprint(tt.args), cmp.Or(root.Execute(), unknown), tt.want)
	}
}
