// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package podfile_test

import (
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/internal/node"
	"github.com/dnsconfigurer/dnsconfigurer/internal/podfile"
)

// TestBoundAnnotations_Readers: an event has each annotation that the agent reads. The packages that
// read them do not import this one, which names them once more.
func TestBoundAnnotations_Readers(t *testing.T) {
	for _, name := range append(node.FollowedAnnotations(), kube.ConfigSourceAnnotation) {
		if got := podfile.BoundAnnotations(map[string]string{name: "value"}); got[name] != "value" {
			t.Errorf("the annotation %s is missing", name)
		}
	}
}
