// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

// Package workload converts the workloads of manifests to the objects that the rules of package
// admission check. It is separate because these rules do no conversion and know no Kubernetes
// types.
package workload
