// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/manifest"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// annotate writes a workflow command of GitHub Actions
// (docs.github.com/actions/reference/workflow-commands-for-github-actions). The line is
// left out for the output of a template, because the template's lines are others.
func (v *Validation) annotate(severity policy.Severity, at kube.Location, title, text string) error {
	level := map[policy.Severity]string{policy.SeverityError: "error", policy.SeverityWarning: "warning",
		policy.SeverityInfo: "notice"}[severity]
	var properties []string
	add := func(name string, value any) {
		properties = append(properties, name+"="+strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escape(fmt.Sprint(value))))
	}
	switch {
	case at.Source != "":
		add("file", visible(at.Source))
	case at.File != "" && at.File != manifest.Stdin:
		add("file", visible(at.File))
		if at.Line > 0 {
			add("line", at.Line)
		}
		if at.Column > 0 {
			add("col", at.Column)
		}
	}
	add("title", title)
	_, err := fmt.Fprintf(v.Stdout, "::%s %s::%s\n", level, strings.Join(properties, ","), escape(text))
	return err
}

// escape escapes the characters that end a workflow command.
func escape(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}
