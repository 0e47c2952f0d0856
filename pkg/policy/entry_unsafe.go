// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
)

// isUnsafe reports whether text would break out of its place in a resolv.conf. A newline
// starts another line, a NUL ends the file for a reader in C, and a space inside a domain
// makes two domains of it. A space elsewhere is safe: it spoils only its own value, and a
// nameserver followed by a comment works. Text that is not UTF-8 cannot be in a request to a
// container runtime: its fields are protobuf strings.
func isUnsafe(k Kind, text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= utf8.RuneSelf { // rare
			return k == KindSearch && strings.ContainsFunc(text, unicode.IsSpace) ||
				strings.ContainsAny(text, "\n\x00") || !utf8.ValidString(text)
		}
	}
	return false
}

// omitsUnsafe reports whether e must not be in d because it is unsafe. It then drops e.
func (d *Decision) omitsUnsafe(e Entry) bool {
	if d.kubelet || !isUnsafe(e.Kind, e.Text) {
		return false
	}
	d.drop(e, ruleUnsafeValue)
	if d.omitFinding(CodeUnsafeValue) {
		return true
	}
	d.addFinding(Finding{
		Code: CodeUnsafeValue, Severity: SeverityError, EnforcedBy: EnforcedByDNSConfigurer,
		Message: unsafeMessage(e.Kind, e.Text),
		Field:   e.field(),
		Hint:    unsafeHint,
	})
	return true
}

const unsafeHint = "remove newlines, NULs and spaces inside domains"

func unsafeMessage(k Kind, text string) string {
	if !utf8.ValidString(text) {
		return fmt.Sprintf("%s %s is not UTF-8 and is dropped", k, excerpt.Quote(text))
	}
	return fmt.Sprintf("%s %s would break out of its line in resolv.conf and is dropped", k, excerpt.Quote(text))
}
