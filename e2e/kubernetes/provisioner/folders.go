package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// folders keeps each volume in root/NODE/VOLUME.
type folders struct{ root string }

// Provision may be called twice for one claim and then answers the same both times.
func (f folders) Provision(_ context.Context, options controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	node := options.SelectedNodeName
	if node == "" {
		return nil, controller.ProvisioningFinished, fmt.Errorf(
			"StorageClass %s: a folder lies on one node, so the class needs volumeBindingMode: WaitForFirstConsumer", options.StorageClass.Name)
	}
	if mode := options.PVC.Spec.VolumeMode; mode != nil && *mode == v1.PersistentVolumeBlock {
		return nil, controller.ProvisioningFinished, fmt.Errorf("claim %s/%s wants a block device; this class has only file systems",
			options.PVC.Namespace, options.PVC.Name)
	}
	path := filepath.Join(f.root, node, options.PVName)
	// Owned by root and closed to others, like a freshly formatted disk: a pod that forgets its fsGroup must notice.
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("make the folder of volume %s: %w", options.PVName, err)
	}
	reclaim := v1.PersistentVolumeReclaimDelete
	if options.StorageClass.ReclaimPolicy != nil {
		reclaim = *options.StorageClass.ReclaimPolicy
	}
	mode := v1.PersistentVolumeFilesystem
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: reclaim,
			AccessModes:                   options.PVC.Spec.AccessModes,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: options.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
			VolumeMode:                    &mode,
			MountOptions:                  options.StorageClass.MountOptions,
			PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			NodeAffinity:                  onlyOn(node),
		},
	}, controller.ProvisioningFinished, nil
}

// Delete removes a volume's folder; the library asks for it only where the reclaim policy says Delete.
func (f folders) Delete(_ context.Context, volume *v1.PersistentVolume) error {
	if volume.Spec.Local == nil || !f.holds(volume.Spec.Local.Path) {
		return &controller.IgnoredError{Reason: fmt.Sprintf("volume %s is not a folder in %s", volume.Name, f.root)}
	}
	if err := os.RemoveAll(volume.Spec.Local.Path); err != nil {
		return fmt.Errorf("remove the folder of volume %s: %w", volume.Name, err)
	}
	return nil
}

// holds tells whether a path is exactly root/NODE/VOLUME: a volume made by hand must not make us delete anything else.
func (f folders) holds(path string) bool {
	below, err := filepath.Rel(f.root, path)
	return err == nil && filepath.Clean(path) == path && strings.Count(below, "/") == 1 && !strings.HasPrefix(below, "..")
}

func onlyOn(node string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
}

func awaitServer(client kubernetes.Interface) {
	for waited := 0; ; waited++ {
		_, err := client.Discovery().ServerVersion()
		if err == nil {
			return
		}
		if waited%50 == 0 {
			log.Printf("waiting for the API server: %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}
