"""Model files: exact, safe, whole or not at all."""

import json
import zipfile

import numpy as np
import pytest
from conftest import additive_truth
from sklearn.model_selection import KFold

import salsa
from salsa import SalsaRegressor
from salsa.archive import VERSION, read_archive, write_archive


@pytest.fixture
def model():
    return SalsaRegressor(random_state=0, order=[1, 2]).fit(*additive_truth(n=60))


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "m.salsa")
    return tmp_path / "m.salsa"


def rewrite(path, change):
    """The same archive with its members passed through change(dict of name -> bytes)."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, blob in members.items():
            archive.writestr(name, blob)


def with_header(**changes):
    def change(members):
        members["header.json"] = json.dumps({**json.loads(members["header.json"]), **changes}).encode()

    return change


class TestRoundTrip:
    def test_predictions_are_the_same_to_the_bit(self, model, path):
        X, _ = additive_truth(seed=5)
        again = salsa.load(path)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.search_.table.equals(model.search_.table)
        assert (again.order_, again.alpha_, again.n_features_in_) == (model.order_, model.alpha_, 6)

    def test_names_outputs_and_infinite_bandwidths_survive(self, tmp_path):
        import pandas as pd

        X, y = additive_truth(n=50, D=3)
        frame = pd.DataFrame(X, columns=["länge", "b c", "x"]).assign(constant=1.0)
        model = SalsaRegressor(random_state=0).fit(frame, np.column_stack([y, -y]))
        model.save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        assert list(again.feature_names_in_) == list(frame.columns)
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))

    def test_parameters_come_back_and_what_cannot_is_named(self, tmp_path):
        parameters = {
            "order": np.int64(2),
            "alpha": (0.1, 1.0),
            "bandwidth": np.ones(6),
            "random_state": 7,
            "cv": KFold(3),
        }
        SalsaRegressor(relevance="equal", **parameters).fit(*additive_truth(n=30)).save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        assert (again.order, again.alpha, again.bandwidth, again.random_state) == (2, [0.1, 1.0], [1.0] * 6, 7)
        assert again.cv == 5
        assert again.search_.notes == ("parameters a model file cannot hold are at their defaults: cv",)

    def test_learned_kernels_and_their_race_come_back(self, tmp_path):
        X, y = additive_truth(n=120)
        model = SalsaRegressor(random_state=0).fit(X, y)
        model.save(tmp_path / "m")
        again = salsa.load(tmp_path / "m")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert len(model.search_.race) > 3
        assert again.search_.race.equals(model.search_.race)

    def test_a_loaded_model_can_be_fitted_again(self, path):
        again = salsa.load(path).set_params(order=2).fit(*additive_truth(n=60))
        assert again.order_ == 2


class TestRefused:
    def test_every_flipped_byte_is_refused_or_harmless(self, model, path):
        blob, X = path.read_bytes(), additive_truth()[0]
        expected = model.predict(X)
        for position in np.linspace(0, len(blob) - 1, 150).astype(int):
            damaged = bytearray(blob)
            damaged[position] ^= 0xFF
            path.write_bytes(bytes(damaged))
            try:
                again = salsa.load(path)
            except (ValueError, OSError):
                continue
            np.testing.assert_array_equal(again.predict(X), expected)

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
    def test_truncated(self, path, share):
        blob = path.read_bytes()
        path.write_bytes(blob[: int(share * len(blob))])
        with pytest.raises(ValueError, match=r"m\.salsa"):
            salsa.load(path)

    def test_newer_format(self, path):
        rewrite(path, with_header(version=VERSION + 1))
        with pytest.raises(ValueError, match="update salsa-learn"):
            salsa.load(path)

    def test_foreign_zip(self, path):
        rewrite(path, lambda members: members.pop("header.json"))
        with pytest.raises(ValueError, match="not a complete salsa model"):
            salsa.load(path)

    def test_changed_array(self, path):
        def change(members):
            members["coef.npy"] = members["offset.npy"]

        rewrite(path, change)
        with pytest.raises(ValueError, match="checksum"):
            salsa.load(path)

    def test_unexpected_member(self, path):
        rewrite(path, lambda members: members.update({"../evil.npy": b""}))
        with pytest.raises(ValueError, match="contents"):
            salsa.load(path)

    def test_missing_entries(self, path):
        rewrite(path, with_header(search={}))
        with pytest.raises(ValueError, match="lacks or misstates"):
            salsa.load(path)

    def test_parameters_that_do_not_exist(self, path):
        rewrite(path, with_header(parameters={"evil": 1}))
        with pytest.raises(ValueError, match="misstates"):
            salsa.load(path)

    def test_pickled_arrays(self, tmp_path):
        with pytest.raises(ValueError, match="pickle"):
            write_archive(tmp_path / "m", {}, {"a": np.array([object()])})
        assert not list(tmp_path.iterdir())

    def test_oversized(self, path):
        with pytest.raises(ValueError, match="more than the limit"):
            read_archive(path, max_bytes=100)

    def test_arrays_that_do_not_fit(self, tmp_path):
        model = SalsaRegressor(order=1, alpha=1.0).fit(*additive_truth(n=20))
        object.__setattr__(model.expansion_, "coef", np.ones((3, 1)))
        model.save(tmp_path / "m")
        with pytest.raises(ValueError, match="do not fit"):
            salsa.load(tmp_path / "m")


class TestWriting:
    def test_leaves_the_old_file_and_no_other_when_it_fails(self, path, monkeypatch):
        before = path.read_bytes()
        monkeypatch.setattr(zipfile.ZipFile, "writestr", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            SalsaRegressor(order=1, alpha=1.0).fit(*additive_truth(n=20)).save(path)
        assert path.read_bytes() == before
        assert [p.name for p in path.parent.iterdir()] == ["m.salsa"]

    def test_needs_its_folder(self, model, tmp_path):
        with pytest.raises(FileNotFoundError):
            model.save(tmp_path / "nowhere" / "m.salsa")

    def test_replaces_nothing_but_files(self, model, tmp_path):
        (tmp_path / "folder").mkdir()
        with pytest.raises(ValueError, match="not a file"):
            model.save(tmp_path / "folder")
        assert [p.name for p in tmp_path.iterdir()] == ["folder"]

    def test_has_ordinary_permissions(self, path):
        path.with_name("other").touch()
        assert path.stat().st_mode == path.with_name("other").stat().st_mode
