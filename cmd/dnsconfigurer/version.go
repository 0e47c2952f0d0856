// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/usage"
)

func versionCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  dnsconfigurer version -o json",
		Args:    usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := usage.CheckFormat(format, "text", "json"); err != nil {
				return err
			}
			return writeVersion(cmd.OutOrStdout(), format)
		},
	}
	usage.FormatFlag(cmd, &format, "`FORMAT`: text or json", "text", "json")
	return cmd
}

func writeVersion(out io.Writer, format string) (err error) {
	v := v1alpha1.VersionResult{Version: version(), GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if format == "json" {
		err = json.NewEncoder(out).Encode(v)
	} else {
		_, err = fmt.Fprint(out, v)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
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
