// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
)

// ConfigSourceAnnotation is on every pod that a kubelet has taken in, and says from
// where: "api", or "file" or "http" for a static pod.
const ConfigSourceAnnotation = "kubernetes.io/config.source"

// StaticPod returns the pod that the kubelet of node makes of a manifest in its
// static pod directory (pkg/kubelet/config): the node's name in lower case is part
// of the pod's name, an empty namespace is default, and the API's defaults are set.
// A pod that a kubelet has already taken in is returned as it is.
func StaticPod(manifest *corev1.Pod, node string) *corev1.Pod {
	if manifest.Annotations[ConfigSourceAnnotation] != "" {
		return manifest
	}
	pod := manifest.DeepCopy()
	takeIn(pod, node)
	return pod
}

// ParseStaticPod reads a file of the static pod directory and returns the pod that
// the kubelet of node makes of it. Like the kubelet it reads one pod, from the first
// document, and passes over fields that it does not know: the kubelet may be newer.
func ParseStaticPod(data []byte, node string) (*corev1.Pod, error) {
	text, err := document.LenientJSON(data)
	if err != nil {
		return nil, err
	}
	var h header
	if err := document.Decode(text, &h); err != nil {
		return nil, fmt.Errorf("is not a Kubernetes object: %w", err)
	}
	if h != (header{"v1", "Pod"}) {
		return nil, fmt.Errorf("holds %q, the kubelet takes v1 Pod only", h)
	}
	pod := new(corev1.Pod)
	if err := document.Decode(text, pod); err != nil {
		return nil, err
	}
	if pod.Name == "" {
		return nil, errors.New("metadata.name is missing")
	}
	takeIn(pod, node)
	return pod, nil
}

func takeIn(pod *corev1.Pod, node string) {
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = node
	SetDefaults(&pod.Spec)
}
