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
