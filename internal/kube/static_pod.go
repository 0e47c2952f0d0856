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

// ConfigSourceAnnotation is set by the kubelet on every pod that it runs and names the
// pod's source: "api", or "file" or "http" for a static pod.
const ConfigSourceAnnotation = "kubernetes.io/config.source"

// StaticPod returns the pod that the kubelet of node creates from a manifest in its
// static pod directory (pkg/kubelet/config): the node's name in lower case is appended to
// the pod's name, an empty namespace becomes default, and the API's defaults are set. A
// pod that already has ConfigSourceAnnotation is returned as it is.
func StaticPod(manifest *corev1.Pod, node string) *corev1.Pod {
	if manifest.Annotations[ConfigSourceAnnotation] != "" {
		return manifest
	}
	pod := manifest.DeepCopy()
	assignToNode(pod, node)
	return pod
}

// ParseStaticPod parses a file of the static pod directory and returns the pod that the
// kubelet of node creates from it. Like the kubelet it reads one pod, from the first
// document, and ignores unknown fields: the kubelet may be newer.
func ParseStaticPod(data []byte, node string) (*corev1.Pod, error) {
	text, err := document.LenientJSON(data)
	if err != nil {
		return nil, err
	}
	var t objectType
	if err := document.Decode(text, &t); err != nil {
		return nil, fmt.Errorf("not a Kubernetes object: %w", err)
	}
	if t != (objectType{"v1", "Pod"}) {
		return nil, fmt.Errorf("unsupported type %q: the kubelet accepts only v1 Pod", t)
	}
	pod := new(corev1.Pod)
	if err := document.Decode(text, pod); err != nil {
		return nil, err
	}
	if pod.Name == "" {
		return nil, errors.New("metadata.name is missing")
	}
	assignToNode(pod, node)
	return pod, nil
}

func assignToNode(pod *corev1.Pod, node string) {
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = node
	SetDefaults(&pod.Spec)
}
