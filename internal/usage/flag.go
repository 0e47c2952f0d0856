// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FormatFlag registers the flag -o, whose first format is the default. jsonl is another name
// of json: commands print JSON Lines, one object per line.
func FormatFlag(cmd *cobra.Command, at *string, text string, formats ...string) {
	*at = formats[0]
	cmd.Flags().VarP((*formatValue)(at), "output", "o", text)
	Complete(cmd, "output", formats...)
}

// formatValue is the value of the flag -o.
type formatValue string

func (f *formatValue) Type() string   { return "string" }
func (f *formatValue) String() string { return string(*f) }

func (f *formatValue) Set(text string) error {
	if text == "jsonl" {
		text = "json"
	}
	*f = formatValue(text)
	return nil
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

// Complete sets the values that shells complete for a flag.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag does not exist
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
		if own := flag.Annotations[wantedAnnotation]; len(own) > 0 {
			want, ok = own[0], true
		}
		if ok {
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

// wantedAnnotation is the annotation of a flag with the text of SetWanted.
const wantedAnnotation = "dnsconfigurer.dev/wanted"

// SetWanted sets the description of the valid values of a flag, in the error about a text that is not
// of its type. "": that of the type.
func SetWanted(flags *pflag.FlagSet, name, wanted string) {
	if wanted == "" {
		return
	}
	if err := flags.SetAnnotation(name, wantedAnnotation, []string{wanted}); err != nil {
		panic(err) // the flag does not exist
	}
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
