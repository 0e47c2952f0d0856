// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package spelling_test

import (
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/spelling"
)

func TestClosest(t *testing.T) {
	candidates := []string{"dnsPolicy", "dnsConfig", "os", "spec", "hostname"}
	for _, tt := range []struct{ word, want string }{
		{"dnsPolcy", "dnsPolicy"},
		{"dnspolicy", "dnsPolicy"},
		{"dnsPloicy", "dnsPolicy"},
		{"dnsPol", ""},
		{"dnsConfigs", "dnsConfig"},
		{"hostUsers", ""},
		{"hsotnmae", "hostname"},
		{"OS", "os"},
		{"so", ""},
		{"o", ""},
		{"spce", "spec"},
		{"peck", ""},
		{"", ""},
	} {
		got, ok := spelling.Closest(tt.word, candidates)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("Closest(%q) = %q, %v, want %q", tt.word, got, ok, tt.want)
		}
	}
}
