package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func options(node string) controller.ProvisionOptions {
	retain := v1.PersistentVolumeReclaimRetain
	return controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, ReclaimPolicy: &retain},
		PVName:       "pvc-1", SelectedNodeName: node,
		PVC: &v1.PersistentVolumeClaim{Spec: v1.PersistentVolumeClaimSpec{AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}}},
	}
}

func TestProvisionTwiceKeepsTheData(t *testing.T) {
	f := folders{t.TempDir()}
	first, _, err := f.Provision(context.Background(), options("node2"))
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(first.Spec.Local.Path, "data")
	if err := os.WriteFile(data, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	second, _, err := f.Provision(context.Background(), options("node2"))
	if err != nil || second.Spec.Local.Path != first.Spec.Local.Path {
		t.Fatalf("second answer %v, %v", second, err)
	}
	if _, err := os.Stat(data); err != nil {
		t.Fatal(err)
	}
	if first.Spec.PersistentVolumeReclaimPolicy != v1.PersistentVolumeReclaimRetain {
		t.Fatalf("reclaim policy %s", first.Spec.PersistentVolumeReclaimPolicy)
	}
	if err := f.Delete(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(first.Spec.Local.Path); !os.IsNotExist(err) {
		t.Fatal("the folder is still there")
	}
}

func TestProvisionNeedsANode(t *testing.T) {
	if _, _, err := (folders{t.TempDir()}).Provision(context.Background(), options("")); err == nil {
		t.Fatal("no error")
	}
}

func TestDeleteLeavesForeignFoldersAlone(t *testing.T) {
	f := folders{t.TempDir()}
	for _, path := range []string{"/etc", f.root, f.root + "/node1", f.root + "/node1/../../x", f.root + "/a/b/c"} {
		volume := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}}}}
		var ignored *controller.IgnoredError
		if err := f.Delete(context.Background(), volume); !errors.As(err, &ignored) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
