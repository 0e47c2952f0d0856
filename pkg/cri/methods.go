// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cri

// shape is how many messages a call has.
type shape int

const (
	unlisted shape = iota // a method newer than us, or another service's
	unary                 // one message each way
	stream                // more than that
)

// methods holds the shapes of the methods of CRI v1. They are written down because
// the generated package would cost each shim 200 kB to say them.
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
	"/runtime.v1.RuntimeService/StreamPodSandboxes":        stream,
	"/runtime.v1.RuntimeService/StreamContainers":          stream,
	"/runtime.v1.RuntimeService/StreamContainerStats":      stream,
	"/runtime.v1.RuntimeService/StreamPodSandboxStats":     stream,
	"/runtime.v1.RuntimeService/GetContainerEvents":        stream,
	"/runtime.v1.RuntimeService/StreamPodSandboxMetrics":   stream,
	"/runtime.v1.ImageService/ListImages":                  unary,
	"/runtime.v1.ImageService/ImageStatus":                 unary,
	"/runtime.v1.ImageService/PullImage":                   unary,
	"/runtime.v1.ImageService/RemoveImage":                 unary,
	"/runtime.v1.ImageService/ImageFsInfo":                 unary,
	"/runtime.v1.ImageService/StreamImages":                stream,
}
