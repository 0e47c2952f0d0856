// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

// shape is how many messages a call has.
type shape int

const (
	unlisted  shape = iota // a method of a newer CRI, or of another service
	unary                  // one message each way
	streaming              // any number of messages
)

// methods holds the shape of each method of CRI v1. The generated package has them too,
// but linking it costs each shim 200 kB of memory.
var methods = map[string]shape{
	"/runtime.v1.RuntimeService/Version":                   unary,
	"/runtime.v1.RuntimeService/RunPodSandbox":             unary,
	"/runtime.v1.RuntimeService/StopPodSandbox":            unary,
	"/runtime.v1.RuntimeService/RemovePodSandbox":          unary,
	"/runtime.v1.RuntimeService/PodSandboxStatus":          unary,
	"/runtime.v1.RuntimeService/ListPodSandbox":            unary,
	"/runtime.v1.RuntimeService/CreateContainer":           unary,
	"/runtime.v1.RuntimeService/StartContainer":            unary,
	"/runtime.v1.RuntimeService/StopContainer":             unary,
	"/runtime.v1.RuntimeService/RemoveContainer":           unary,
	"/runtime.v1.RuntimeService/ListContainers":            unary,
	"/runtime.v1.RuntimeService/ContainerStatus":           unary,
	"/runtime.v1.RuntimeService/UpdateContainerResources":  unary,
	"/runtime.v1.RuntimeService/ReopenContainerLog":        unary,
	"/runtime.v1.RuntimeService/ExecSync":                  unary,
	"/runtime.v1.RuntimeService/Exec":                      unary,
	"/runtime.v1.RuntimeService/Attach":                    unary,
	"/runtime.v1.RuntimeService/PortForward":               unary,
	"/runtime.v1.RuntimeService/ContainerStats":            unary,
	"/runtime.v1.RuntimeService/ListContainerStats":        unary,
	"/runtime.v1.RuntimeService/PodSandboxStats":           unary,
	"/runtime.v1.RuntimeService/ListPodSandboxStats":       unary,
	"/runtime.v1.RuntimeService/UpdateRuntimeConfig":       unary,
	"/runtime.v1.RuntimeService/Status":                    unary,
	"/runtime.v1.RuntimeService/CheckpointContainer":       unary,
	"/runtime.v1.RuntimeService/CheckpointPod":             unary,
	"/runtime.v1.RuntimeService/RestorePod":                unary,
	"/runtime.v1.RuntimeService/ListMetricDescriptors":     unary,
	"/runtime.v1.RuntimeService/ListPodSandboxMetrics":     unary,
	"/runtime.v1.RuntimeService/RuntimeConfig":             unary,
	"/runtime.v1.RuntimeService/UpdatePodSandboxResources": unary,
	"/runtime.v1.RuntimeService/StreamPodSandboxes":        streaming,
	"/runtime.v1.RuntimeService/StreamContainers":          streaming,
	"/runtime.v1.RuntimeService/StreamContainerStats":      streaming,
	"/runtime.v1.RuntimeService/StreamPodSandboxStats":     streaming,
	"/runtime.v1.RuntimeService/GetContainerEvents":        streaming,
	"/runtime.v1.RuntimeService/StreamPodSandboxMetrics":   streaming,
	"/runtime.v1.ImageService/ListImages":                  unary,
	"/runtime.v1.ImageService/ImageStatus":                 unary,
	"/runtime.v1.ImageService/PullImage":                   unary,
	"/runtime.v1.ImageService/RemoveImage":                 unary,
	"/runtime.v1.ImageService/ImageFsInfo":                 unary,
	"/runtime.v1.ImageService/StreamImages":                streaming,
}
