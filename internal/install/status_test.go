// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"
)

// TestHealth_Unreachable: the error names the address, without the URL of the request.
func TestHealth_Unreachable(t *testing.T) {
	const address = "127.0.0.1:1" // tcpmux, which no process serves
	_, err := health(t.Context(), address)
	if err == nil || !strings.HasPrefix(err.Error(), "health of the shim at http://"+address+": dial tcp ") ||
		strings.Contains(err.Error(), "readyz") {
		t.Error(err)
	}
}
